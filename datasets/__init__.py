"""Small graphs that are made here and need no network."""
