"""Random numbers that tables begin with, set by all cores, with a bar where that takes long.

Each number depends on the seed, the stream, the row and the column alone: the bits are the same for any number of
threads, and for a process that fills some rows or columns.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from .. import _native
from ..progress import progress

BLOCK_BYTES = 64 << 20  # of rows between two moments when the bar moves
SECONDS_WITHOUT_BAR = 2.0


@dataclass(frozen=True)
class Uniform:
    """Uniform in [low, high)."""

    low: float = -1.0
    high: float = 1.0

    def fill(self, table: _native.HostTable, seed: int, stream: int = 0, *columns, **owned) -> None:
        """Set all rows, and their state to 0. columns: (whole_dim, ranges), of a table that has some columns of the
        rows; owned: owners and worker, of one that has some of the rows (HostTable.init_uniform)."""
        fill_in_blocks(table, lambda first, count: table.init_uniform(self.low, self.high, seed, stream, *columns,
                                                                      first=first, count=count, **owned))

    def by_key(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """(n, dim) float32: what `fill` gives to rows with the numbers `keys` (n,) int64."""
        out = np.empty((len(keys), dim), np.float32)
        _native.key_uniform(keys, out, self.low, self.high, seed)
        return out


@dataclass(frozen=True)
class Normal:
    """Normal, by the method of Box and Muller."""

    mean: float = 0.0
    std: float = 1.0

    def fill(self, table: _native.HostTable, seed: int, stream: int = 0, *columns, **owned) -> None:
        """As Uniform."""
        fill_in_blocks(table, lambda first, count: table.init_normal(self.std, seed, stream, *columns, mean=self.mean,
                                                                     first=first, count=count, **owned))

    def by_key(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """As Uniform."""
        out = np.empty((len(keys), dim), np.float32)
        _native.key_normal(keys, out, self.mean, self.std, seed)
        return out


@dataclass(frozen=True)
class Xavier:
    """Uniform, with the bound of Glorot and Bengio (2010) for the table as a matrix (rows, columns), as in
    torch.nn.init.xavier_uniform_."""

    gain: float = 1.0

    def of_table(self, rows: int, dim: int) -> Uniform:
        """The numbers for a table of this size."""
        bound = self.gain * math.sqrt(6 / (rows + dim))
        return Uniform(-bound, bound)


def fill_in_blocks(table: _native.HostTable, fill_rows: Callable[[int, int], object],
                   rows_at_a_time: Optional[int] = None) -> None:
    """Call fill_rows(first, count) for one block of rows after the other, with a bar."""
    at_a_time = rows_at_a_time or max(1, BLOCK_BYTES // (4 * table.stride))
    with progress(table.rows, "filling the table", "rows", delay=SECONDS_WITHOUT_BAR) as bar:
        for first in range(0, table.rows, at_a_time):
            count = min(at_a_time, table.rows - first)
            fill_rows(first, count)
            bar.update(count)
