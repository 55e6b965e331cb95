"""Data-parallel training (by rows) in several processes. See docs/exactness.md."""
