"""The batch of a step: triples, negatives, and their division over ranks."""
