"""The update of a table that a batch uses as a whole: rows of the batch have further gradients, so that they wait."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np
import torch

from ... import _native
from ...store.device.device import Device


class TableShape(NamedTuple):
    """Shapes: B queries, a table of so many rows of dim floats, and U rows of the batch at most."""

    queries: int
    rows: int
    dim: int
    in_batch: int


class TableUpdate:
    """Updates all rows but those of the batch.

    Attributes:
        slots: (rows + 1,) int32: of a row among the batch's, and -1 for others.
        rule: of the optimizer, as kernels take it.
        aside: (U, dim), gradients by their scores of the batch's rows, which alone are not updated.
    """

    def __init__(self, device: Device, shape: TableShape, rule: Tuple):
        """rule: as kernels take it."""
        self._device, self._dim, self.rule = device, shape.dim, rule
        self.aside = device.zeros(shape.in_batch, shape.dim)
        self.slots = device.zeros(shape.rows + 1, dtype=np.int32)
        self._numbers = device.zeros(shape.in_batch, dtype=np.int32)
        device.submit(self._fill)

    def _fill(self) -> None:
        self.slots.fill_(-1)
        self._numbers.copy_(torch.arange(len(self._numbers)))

    def begin(self, batch_rows: torch.Tensor) -> None:
        """batch_rows: (U,) int64; padding is the number of the table's rows."""
        self.slots.index_copy_(0, batch_rows, self._numbers)  # padding shares a slot of no row

    def apply(self, table: torch.Tensor, first: int, gradients: torch.Tensor,
              unit: Optional[torch.Tensor] = None) -> None:
        """gradients: (n, dim) of the rows first .. first + n of the table (rows, stride). unit: (1,) by what they are
        to be multiplied."""
        _native.softmax_update_tile(table, self._dim, first, gradients, self.slots, self.aside, self.rule,
                                    self._device.stream, unit)

    def end(self, batch_rows: torch.Tensor, sums: torch.Tensor) -> None:
        """As at the beginning. sums: (U, dim), to which the gradients aside are added."""
        self.slots.index_fill_(0, batch_rows, -1)
        sums += self.aside
