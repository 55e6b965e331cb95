"""Searches for the flags with the best validation MRR: a space in YAML, trials that are training runs, a page."""
