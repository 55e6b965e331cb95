"""What a step trains on: triples, negatives, and their division over ranks."""
