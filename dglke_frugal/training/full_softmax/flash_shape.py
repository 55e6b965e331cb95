"""Which tables FlashSoftmax meets, in what pieces, and what it holds; without PyTorch, for the memory plan."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple, Tuple

LONGEST = 128  # floats of a row: programs keep sums of whole rows in registers
FEWEST = 1 << 17  # rows; smaller tables' scores are soon read again
PROGRAMS = 264  # of the pass over the table, two for each multiprocessor of an H100; their number orders the sums
PART = 1 << 16  # rows whose gradients are held


class Launch(NamedTuple):
    """How a kernel is launched: queries and rows of a program's tile, warps, and stages of its copies."""

    queries: int
    rows: int
    warps: int
    stages: int


# The fastest of seven tried on an H200 at 2.5 million rows of 100 floats, or as fast as it within 6 %.
SUMS = {"tf32": Launch(128, 64, 8, 2), "bf16": Launch(128, 32, 4, 3)}
GRADIENTS = {"tf32": Launch(64, 128, 8, 2), "bf16": Launch(32, 128, 4, 3)}


def flash_fits(matmul: str, rows: int, dim: int, one_answer: bool, bound: float, dropout: float) -> bool:
    """Whether FlashSoftmax can do it, and is faster. one_answer: of each query. bound: of scores, 0 for none."""
    return (matmul in SUMS and dim <= LONGEST and rows >= FEWEST and one_answer and not bound and not dropout
            and find_spec("triton") is not None)


def splits(queries: int, rows: int, launch: Launch) -> Tuple[int, int]:
    """(rows of a split of the table, number of splits)."""
    wanted = max(1, PROGRAMS // -(-queries // launch.queries))
    each = -(-rows // wanted // launch.rows) * launch.rows
    return each, -(-rows // each)


def flash_floats(matmul: str, queries: int, rows: int, dim: int) -> int:
    """What FlashSoftmax holds."""
    return splits(queries, rows, SUMS[matmul])[1] * queries * (dim + 2) + PART * dim + rows
