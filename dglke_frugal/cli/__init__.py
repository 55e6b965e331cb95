"""Commands: their flags, output and exit codes."""
