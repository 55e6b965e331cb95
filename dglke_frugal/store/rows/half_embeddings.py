"""Rows kept in half precision: how they are rounded, and how they look to whoever reads and writes float32."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

from ... import _native

LARGEST = 65504.0  # finite number in half precision


@dataclass(frozen=True)
class Rounding:
    """element: "fp16". seed and table: of the random numbers by which rows are rounded where a step stores
    them (csrc/base/random/rounding_noise.h); each table of a run has a number of its own. columns: which of whole rows
    these are, where ranks have some each: at most two ranges (first, count), none for all."""

    element: str
    seed: int
    table: int
    columns: Tuple[Tuple[int, int], ...] = ()


class HalfEmbeddings:
    """The embeddings of a table in half precision as (rows, dim) float32, as far as NumPy's indexing of rows goes.

    Reads slices and arrays of ids, as new arrays; writes both, rounded to the nearest half.
    """

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, table: _native.HostTable):
        self._table = table
        self.shape = (table.rows, table.dim)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice):
            first, last = self._range(rows)
            block = np.empty((last - first, self.shape[1]), np.float32)
            self._table.read(first, block)
            return block
        ids = np.ascontiguousarray(rows, np.int64)
        block = np.empty((len(ids), self.shape[1]), np.float32)
        self._table.gather(ids, block)
        return block

    def __setitem__(self, rows, block: np.ndarray) -> None:
        if not isinstance(rows, slice):
            finite = np.clip(block, -LARGEST, LARGEST)  # as a slice is written, csrc/base/half.h
            stored_embeddings(self._table)[rows] = np.where(np.isinf(block), block, finite)
            return
        first, last = self._range(rows)
        self._table.assign(first, np.ascontiguousarray(np.broadcast_to(block, (last - first, self.shape[1])),
                                                       np.float32))

    def _range(self, rows: slice) -> tuple[int, int]:
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("rows in half precision are read and written by slices of neighbours")
        return first, max(first, last)


def stochastic_rounded_rows(rows: _native.StepRows, rounding: Optional[Rounding]) -> _native.StepRows:
    """The rows that steps on the CPU compute with: the rows themselves, or, where rows are in half precision, their
    float32 values."""
    return rows if rounding is None else _native.StochasticRoundedRows(rows, rounding.seed, rounding.table,
                                                                       rounding.columns)


def embeddings_of(table: _native.HostTable):
    """(rows, dim) float32: a view of the table itself, strided, or HalfEmbeddings."""
    return table.embeddings if table.element == "fp32" else HalfEmbeddings(table)


def stored_embeddings(table: _native.HostTable) -> np.ndarray:
    """(rows, dim) view of the embeddings as they are kept: float32 or float16."""
    return table.embeddings if table.element == "fp32" else table.half_bits.view(np.float16)
