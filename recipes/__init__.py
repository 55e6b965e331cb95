"""Ready-made runs: a command each, `python -m recipes.NAME`."""
