"""The row kernels of a step (csrc/rows), for NumPy arrays and for tensors on a CUDA device alike.

What happens to a row is decided by the engine's plan: where it is read from (a cache slot or its host row) and how it
leaves the step (TO_CACHE to PUBLISHED_BEFORE_SYNC, below). A record is a row of `stride` float32: the embedding (dim),
the optimizer state, padding.
Rows in half precision lie in the place of half as many floats; kernels that only copy take them for those.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from ... import _native

FROM_HOST = -1  # source of a row that is read from host memory
TO_CACHE, TO_VALUE, TO_GRADIENT, TO_HOST_ROW, WRITE_BACK_BUFFER, PUBLISHED_BEFORE_SYNC = range(6)

# One write-back as the kernels read it (csrc/engine/plan.h).
WRITE_BACK = np.dtype(
    [("row", np.int64), ("after", np.int64), ("target", np.int64), ("block", np.int64), ("slot", np.int32),
     ("leave", np.uint8)], align=True)


def as_bytes(write_backs: np.ndarray) -> np.ndarray:
    """View of `write_backs` (n,) WRITE_BACK as (n, itemsize) uint8, which is what write_back_evicted takes."""
    return np.ascontiguousarray(write_backs).view(np.uint8).reshape(len(write_backs), WRITE_BACK.itemsize)


def update_tables(updates: Sequence[tuple], learning_rate: float, stream: int = 0) -> None:
    """Row-wise Adagrad for the rows of a step, of one to three tables together.

    updates: for each table (RowTable, leave, target, records, entries, used, rounded, busy), as _native.update_tables
    takes them; `rounded` may be left out for rows of floats, and `busy` and the mean squares of an entry's gradients
    everywhere: they are then computed here.
    """
    _native.update_tables([_complete(stream, *update) for update in updates], learning_rate, stream)


def _complete(stream: int, table: _native.RowTable, leave, target, records, entries, used=None, rounded=None,
              busy=None) -> tuple:
    if busy is None and entries and not isinstance(records, np.ndarray) and records.is_cuda:
        busy = busy_rows([offset for _, offset, *_ in entries])
    entries = [with_squares(entry, stream) for entry in entries]
    return table, leave, target, records, entries, used, rounded, busy


def busy_rows(offsets: Sequence):
    """The rows with many occurrences, as _native.update_tables takes them. offsets: tensors, of each entry."""
    count, order = sum(offset.diff() for offset in offsets).sort(descending=True, stable=True)
    busy = order[count > _native.FEW_OCCURRENCES].tolist()
    return offsets[0].new_tensor([len(busy), *busy])


def with_squares(entry: tuple, stream: int) -> tuple:
    """An entry with the mean squares of its gradients, which a GPU's kernels want."""
    gradients, offset, order, *given = entry
    squares = given[0] if given else None
    if squares is None and not isinstance(gradients, np.ndarray) and gradients.is_cuda:
        squares = gradients.new_empty(len(gradients))
        _native.mean_squares(gradients, squares, stream)
    return gradients, offset, order, squares
