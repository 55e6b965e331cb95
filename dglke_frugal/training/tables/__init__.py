"""The tables of a run and the values that they start with."""
