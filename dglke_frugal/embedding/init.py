"""Start values of rows: numbers that depend on the seed and on the row's id or key alone."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Union

import numpy as np
import torch

from .. import _native
from ..store.start_numbers import Normal, Uniform, Xavier, fill_in_blocks

ROWS_AT_A_TIME = 1 << 16  # of a function, whose numbers may depend on it


@dataclass(frozen=True)
class Constant:
    """The same number everywhere."""

    value: float = 0.0

    def fill(self, table: _native.HostTable, seed: int) -> None:
        """Set all rows, and their state to 0."""
        def fill_rows(first, count):
            _set_rows(table, first, count, self.value)

        fill_in_blocks(table, fill_rows)

    def by_key(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """(n, dim) float32 for keys (n,) int64."""
        return np.full((len(keys), dim), self.value, np.float32)


Init = Union[Uniform, Normal, Xavier, Constant, Callable[[torch.Tensor], object]]
BY_KEY = (Uniform, Normal, Constant)


def of_table(init: Init, rows: int, dim: int) -> Init:
    """The start values for a table of this size. Raises ValueError for what is none."""
    if isinstance(init, type) or not (callable(init) or isinstance(init, (*BY_KEY, Xavier))):
        raise ValueError("init is Normal(), Uniform(-1, 1), Xavier() or Constant(0) of dglke_frugal.embedding, or a "
                         f"function that fills a tensor, not {init!r}")
    values = init.of_table(rows, dim) if isinstance(init, Xavier) else init
    if isinstance(values, BY_KEY):
        try:
            with np.errstate(over="ignore"):
                first = values.by_key(np.zeros(1, np.int64), 1, 0)
        except (TypeError, ValueError):  # of what is no number
            first = np.full(1, np.nan)
        if not np.isfinite(first).all():
            raise ValueError(f"start values are finite numbers of float32, not {init!r}")
    return values


def fill(table: _native.HostTable, init: Init, seed: int) -> None:
    """Set all rows of the table, and their state to 0.

    init: as of_table gives it. A function fills an (n, dim) tensor in place, as those of torch.nn.init do; it is called
    for one block of rows after the other and draws from torch's own generator.
    """
    if isinstance(init, BY_KEY):
        return init.fill(table, seed)

    def fill_rows(first, count):
        block = torch.full((count, table.dim), torch.nan, dtype=torch.float32, device="cpu")
        with torch.no_grad():
            init(block)
        if not block.isfinite().all():
            raise ValueError("init leaves numbers that are not finite; it fills the tensor that it gets in place, as "
                             "torch.nn.init.uniform_ does")
        _set_rows(table, first, count, block.numpy())

    fill_in_blocks(table, fill_rows, ROWS_AT_A_TIME)


def _set_rows(table: _native.HostTable, first: int, count: int, values) -> None:
    records = table.records[first : first + count]
    records[:, : table.dim] = values
    records[:, table.dim : table.record_floats] = 0
