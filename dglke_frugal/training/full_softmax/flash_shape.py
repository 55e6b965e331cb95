"""Which tables FlashSoftmax takes, in what pieces, and what memory it needs; without PyTorch, for the memory plan."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from .tiles import ROUNDED_MATMUL, has_triton

LONGEST = 128  # floats of a row: programs keep sums of whole rows in registers
FEWEST = 1 << 17  # rows; smaller tables' scores are soon read again
AT_ONCE = 264  # programs that run at once, two on each multiprocessor of an H100
# Of the pass over the table, at most; their number orders the sums. A few multiprocessors are left to the rounding of
# rows at the same time, which otherwise ends later.
PROGRAMS = 240
PART = 7 << 15  # rows that are held in 16 bits at most, of each of two parts
GRADIENT_PART = 1 << 16  # rows whose gradients are held, unless they update the rows at once
LEAST_SCORE = -3.0e38  # below all scores
# Shares of a softmax are rounded after they were multiplied by 2 to this, so that small ones keep their digits in fp16.
SHARE_BITS = 14.0


class Launch(NamedTuple):
    """How a kernel is launched: queries and rows of a program's tile, warps, and stages of its copies."""

    queries: int
    rows: int
    warps: int
    stages: int


# The fastest of forty and thirty tried on H200s at 196,608 and a million rows of 100 floats, 1024 queries.
SUMS = Launch(64, 128, 4, 3)
GRADIENTS = Launch(128, 64, 4, 3)
QUERY_TILE = max(SUMS.queries, GRADIENTS.queries)  # of which each is a divisor
TOGETHER = 4  # queries of a program that adds up what programs have summed


def flash_fits(matmul: str, rows: int, dim: int, one_answer: bool, bound: float, dropout: float) -> bool:
    """Whether FlashSoftmax can do it, and is faster. one_answer: of each query. bound: of scores, 0 for none."""
    return (matmul == ROUNDED_MATMUL and dim <= LONGEST and rows >= FEWEST and one_answer and not bound and not dropout
            and has_triton())


def width(dim: int) -> int:
    """The power of two that Triton's tiles of rows have; 16 at least, for tensor cores."""
    return max(16, 1 << (dim - 1).bit_length())


def whole_queries(queries: int) -> int:
    """So many queries, up to a whole tile."""
    return -(-queries // QUERY_TILE) * QUERY_TILE


def part_rows(rows: int) -> int:
    """Rows of a part of a table: parts are as even as they can be."""
    even = -(-rows // -(-rows // PART))
    return min(rows, -(-even // SUMS.rows) * SUMS.rows)


def splits(queries: int, rows: int) -> Tuple[int, int]:
    """(rows of a split of a part of the table, number of splits)."""
    wanted = max(1, PROGRAMS // -(-queries // SUMS.queries))
    each = -(-rows // wanted // SUMS.rows) * SUMS.rows
    return each, -(-rows // each)


def flash_floats(optimizer: str, queries: int, rows: int, dim: int, in_batch: int) -> int:
    """Bytes that FlashSoftmax needs. in_batch: rows of a batch, at most."""
    part, wide = part_rows(rows), width(dim)
    held = splits(queries, part)[1] * whole_queries(queries) * (wide + 2)  # sums
    held += (2 * part + whole_queries(queries)) * wide // 2 + (in_batch + dim) * queries + rows
    return held + (0 if optimizer == "adagrad" else min(GRADIENT_PART, rows) * dim)
