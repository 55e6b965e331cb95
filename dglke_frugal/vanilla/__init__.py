"""Runs `dglke` 0.1.2, with three faults repaired (repairs.py), on a current `dgl`, PyTorch and Python.

Importing this package changes nothing and loads neither; `install` and `run` do. docs/from-dgl-ke.md says what runs.
"""
from .commands import run, unknown_flags
from .installation import install
from .seeds import seed_everything

__all__ = ["install", "run", "seed_everything", "unknown_flags"]
