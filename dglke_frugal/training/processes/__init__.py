"""The processes of a run: how they are started, and what they tell each other."""
