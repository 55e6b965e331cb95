"""The folder of a run: its files and checkpoints."""
