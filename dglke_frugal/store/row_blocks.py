"""Ranges of rows: a table is read and written a block at a time, so that no second one is in memory."""

from __future__ import annotations

from typing import Iterator

BLOCK_BYTES = 1 << 20  # larger ones are no faster, and what they leave in the allocator stays with the process


def row_blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Consecutive ranges of about BLOCK_BYTES that cover `rows` rows of `row_bytes` bytes."""
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))
