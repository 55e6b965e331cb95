"""Columns of integers as lines of text, by numpy: what the generator of large graphs writes."""
from __future__ import annotations

from typing import Sequence

import numpy as np

TAB, NEWLINE, ZERO = ord("\t"), ord("\n"), ord("0")
PIECE = 1 << 16  # lines made at a time: their bytes stay in the processor's cache


def lines(columns: Sequence[np.ndarray], prefixes: Sequence[str] = ()) -> bytes:
    """One line for each place of the columns, fields apart by TAB.

    columns: arrays (n,) of integers of at least 0. prefixes: ASCII text in front of each column's numbers ("" for none,
    the default).
    """
    prefixes = [prefix.encode("ascii") for prefix in prefixes or [""] * len(columns)]
    return b"".join(_some_lines([column[begin:begin + PIECE] for column in columns], prefixes)
                    for begin in range(0, len(columns[0]), PIECE))


def _some_lines(columns: Sequence[np.ndarray], prefixes: Sequence[bytes]) -> bytes:
    """The digits are laid out in a matrix of bytes, a line a row, of which the leading zeros are left out."""
    parts, kept = [], []
    for place, (column, prefix) in enumerate(zip(columns, prefixes)):
        digits, significant = _digits(column)
        for text in (prefix, digits, bytes([NEWLINE if place == len(columns) - 1 else TAB])):
            if isinstance(text, bytes):
                text = np.broadcast_to(np.frombuffer(text, np.uint8), (len(digits), len(text)))
            parts.append(text)
            kept.append(significant if text is digits else np.ones(text.shape, bool))
    return np.concatenate(parts, axis=1)[np.concatenate(kept, axis=1)].tobytes()


def _digits(column: np.ndarray):
    """Decimal digits as ASCII (n, width), and which of them are written."""
    largest = int(column.max(initial=0))
    width = len(str(largest))
    rest = column.astype(np.uint32 if largest < 2**32 else np.uint64)
    digits = np.empty((len(column), width), np.uint8)
    for place in range(width - 1, -1, -1):
        rest, digit = np.divmod(rest, rest.dtype.type(10))
        digits[:, place] = digit
    significant = np.logical_or.accumulate(digits > 0, axis=1)
    significant[:, -1] = True
    return digits + np.uint8(ZERO), significant
