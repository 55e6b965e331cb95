"""Training by several machines, each a worker with the rows that it owns. See docs/machines.md."""
