"""The choices that flags leave to a run, and the memory that it needs."""
