"""Start values of rows: numbers that depend on the seed and on the row's id or key alone."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Union

import numpy as np
import torch

from .. import _native

ROWS_AT_A_TIME = 1 << 16  # of a function, whose numbers may depend on it
NUMBERS_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class Uniform:
    """Uniform in [low, high)."""

    low: float = -1.0
    high: float = 1.0

    def values(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """(n, dim) float32 for keys (n,) int64."""
        out = np.empty((len(keys), dim), np.float32)
        _native.key_uniform(keys, out, self.low, self.high, seed, 0)
        return out


@dataclass(frozen=True)
class Normal:
    """Normal, by the method of Box and Muller from two uniform numbers each."""

    mean: float = 0.0
    std: float = 1.0

    def values(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """(n, dim) float32 for keys (n,) int64."""
        radius, angle = (np.empty((len(keys), dim), np.float32) for _ in range(2))
        _native.key_uniform(keys, radius, 0.0, 1.0, seed, 0)
        _native.key_uniform(keys, angle, 0.0, 1.0, seed, 1)
        # 1 - u is above 0, whose logarithm is finite.
        normal = np.sqrt(-2 * np.log1p(-radius.astype(np.float64))) * np.cos(2 * np.pi * angle.astype(np.float64))
        return (self.mean + self.std * normal).astype(np.float32)


@dataclass(frozen=True)
class Constant:
    """The same number everywhere."""

    value: float = 0.0

    def values(self, keys: np.ndarray, dim: int, seed: int) -> np.ndarray:
        """(n, dim) float32 for keys (n,) int64."""
        return np.full((len(keys), dim), self.value, np.float32)


Init = Union[Uniform, Normal, Constant, Callable[[torch.Tensor], object]]
BY_KEY = (Uniform, Normal, Constant)


def fill(table: _native.HostTable, init: Init, seed: int) -> None:
    """Set all rows of the table, and their state to 0.

    init: one of the above, or a function that fills an (n, dim) tensor in place, as those of torch.nn.init do; such a
    function is called for one block of rows after the other and draws from torch's own generator.
    """
    if isinstance(init, Uniform):
        table.init_uniform(init.low, init.high, seed, 0)
        return
    at_a_time = max(1, NUMBERS_AT_A_TIME // table.dim) if isinstance(init, BY_KEY) else ROWS_AT_A_TIME
    for first in range(0, table.rows, at_a_time):
        rows = np.arange(first, min(table.rows, first + at_a_time))
        if isinstance(init, BY_KEY):
            values = init.values(rows, table.dim, seed)
        else:
            block = torch.empty(len(rows), table.dim, dtype=torch.float32, device="cpu")
            with torch.no_grad():
                init(block)
            values = block.numpy()
        records = table.records[first : first + len(rows)]
        records[:, : table.dim] = values
        records[:, table.dim : table.record_floats] = 0
