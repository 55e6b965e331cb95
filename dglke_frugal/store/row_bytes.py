"""Bytes of a row, in host memory and on a device alike."""

from __future__ import annotations

from .. import _native
from ..options import state_floats

FLOAT = 4


def row_bytes(dim: int, dtype: str = "fp32", optimizer: str = "row_adagrad") -> int:
    """Bytes of a host row: the embedding of elements `dtype`, its optimizer's state in float32, padding."""
    return _native.row_bytes(dim, state_floats(optimizer, dim), dtype)
