"""Ready-made runs: a command each."""
