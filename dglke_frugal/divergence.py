"""Whether a training has diverged: whether a loss, a score or a number of a table is NaN or infinite.

Whoever finds such numbers asks here: a NaN is neither above nor below anything, so that comparisons would count it as a
worse candidate, a better model or a small loss.
"""

from __future__ import annotations

import math
from typing import Callable, Iterator, Tuple

import numpy as np

from . import _native
from .arrays import is_tensor
from .errors import InputError

DIVERGED = "the training has diverged"
REMEDY = "use a smaller --lr, or more --regularization_coef"
_BLOCK_BYTES = 1 << 20  # of rows that are looked at together: they stay in a cache for the second look
_LARGE_BLOCK_BYTES = 1 << 26  # of rows that all threads, or a device, look at together


class Diverged(InputError):
    """A loss, a score or a number of a table that is NaN or infinite. The message is one sentence.

    fact: what was found, as the beginning of the sentence. remedy: its end.
    """

    def __init__(self, fact: str, remedy: str = REMEDY):
        self.fact, self.remedy = fact, remedy
        super().__init__(f"{fact}: {DIVERGED}; {remedy}")


def check_loss(loss: float) -> None:
    """Raise Diverged unless the loss is finite."""
    if not math.isfinite(loss):
        raise Diverged(f"the loss is {loss}")


def check_rows(rows, name: str, id_of: Callable[[int], int] = int) -> float:
    """The largest |x| of a table (n, ...), which `name` says in a sentence. Raises Diverged unless all are finite.

    rows: float, numpy or a torch tensor, or what only answers to slices of rows with float32 arrays. id_of: the number
    that users know a row by.
    """
    return max((largest for largest, _, _ in checked_blocks(rows, name, id_of)), default=0.0)


def longest_row(rows, name: str, id_of: Callable[[int], int] = int) -> np.ndarray:
    """The row (1, ...) float32 of a table that holds the largest |x|. Arguments and errors as of check_rows."""
    _, begin, block = max(checked_blocks(rows, name, id_of), key=lambda each: each[0])
    block = block.reshape(len(block), -1)
    row = begin + int(np.maximum(block.max(axis=1), -block.min(axis=1)).argmax())
    return np.array(rows[row : row + 1], np.float32)


def check_scores(scores: np.ndarray, model: str) -> np.ndarray:
    """The scores, which a model of this name gave. Raises Diverged unless all are finite."""
    finite = np.isfinite(scores)
    if not finite.all():
        raise Diverged(f"a score of {model} is {scores[~finite][0]}")
    return scores


def checked_blocks(rows, name: str, id_of: Callable[[int], int] = int) -> Iterator[Tuple[float, int, object]]:
    """(largest |x|, first row, rows) of consecutive blocks of the table. Arguments and errors as of check_rows."""
    for begin, block in _blocks(rows):
        largest = _largest(block)
        if not math.isfinite(largest):
            raise Diverged(f"row {id_of(begin + _first_bad(block))} of {name} holds NaN or infinite numbers")
        yield largest, begin, block


def _blocks(rows) -> Iterator[Tuple[int, object]]:
    block_bytes = _LARGE_BLOCK_BYTES if is_tensor(rows) or _has_rows_of_floats(rows) else _BLOCK_BYTES
    step = max(1, block_bytes // (4 * max(1, math.prod(rows.shape[1:]))))
    for begin in range(0, len(rows), step):
        yield begin, rows[begin : begin + step]


def _has_rows_of_floats(rows) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype == np.float32 and rows.ndim == 2 and rows.strides[1] == 4


def _largest(block) -> float:
    """The largest |x|, NaN if there is one."""
    if not math.prod(block.shape):
        return 0.0
    if is_tensor(block):
        return float(block.detach().abs().amax())
    if _has_rows_of_floats(block):
        return _native.largest_magnitude(block)
    return float(np.maximum(block.max(), -block.min()))


def _first_bad(block) -> int:
    if is_tensor(block):
        block = block.detach().cpu().numpy()
    return int(np.argmin(np.isfinite(block).reshape(len(block), -1).all(axis=1)))
