"""A run from its start values to its saved tables, in one process."""
