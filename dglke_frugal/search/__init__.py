"""Searches for the flags with the best validations: a space in YAML, trials that are training runs, a page."""
