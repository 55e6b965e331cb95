"""Bytes of a row, in host memory and on a device alike."""

from __future__ import annotations

from ..config import state_floats

FLOAT = 4
LINE_FLOATS = 32  # rows are padded to whole 128-byte lines, with the optimizer state in the padding


def row_bytes(dim: int, dtype: str = "fp32", optimizer: str = "row_adagrad") -> int:
    """Bytes of a host row: the embedding of elements `dtype`, its optimizer's state in float32, padding."""
    return padded_bytes((dim if dtype == "fp32" else -(-dim // 2)) + state_floats(optimizer, dim))


def padded_bytes(floats: int) -> int:
    """Bytes from one row to the next, of rows that hold so many floats (csrc/memory/row_layout.h)."""
    return -(-floats // LINE_FLOATS) * LINE_FLOATS * FLOAT
