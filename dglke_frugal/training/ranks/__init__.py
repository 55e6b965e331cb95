"""Training by rows in several processes. See docs/ranks.md."""
