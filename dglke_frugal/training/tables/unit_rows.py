"""--normalize_entities: rows of length 1, as the paper of TransE has them (Bordes et al. 2013), on the CPU.

A softmax over all entities does the same on its device (full_softmax/full_softmax.py).
"""

from __future__ import annotations

import numpy as np

_TOGETHER = 1 << 14  # rows
LEAST = 1e-30  # length by which a shorter row is divided


def normalize(rows: np.ndarray) -> np.ndarray:
    """Rows (n, dim) float32, each divided by its length."""
    length = np.sqrt(np.square(rows, dtype=np.float64).sum(1, keepdims=True))
    return (rows / np.maximum(length, LEAST)).astype(np.float32)


def normalize_table(table) -> None:
    """Of all rows (n, dim) float32, of which slices are read and written."""
    for begin in range(0, len(table), _TOGETHER):
        block = slice(begin, min(begin + _TOGETHER, len(table)))
        table[block] = normalize(table[block])


def normalize_rows(table: np.ndarray, ids: np.ndarray) -> None:
    """Of the rows `ids`, which are distinct, in place."""
    table[ids] = normalize(table[ids])
