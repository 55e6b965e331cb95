"""The softmax of table_softmax.py for large tables of short rows on a GPU, whose scores cost more to keep than to
compute.

Kernels: flash_kernels.py. They work in multiprocessors' own memory, so that little is kept in addition to the table.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np
import torch

from ...models.device.products import set_matmul
from ...store.device.device import Device
from .flash_shape import (GRADIENT_PART, GRADIENTS, LEAST_SCORE, SHARE_BITS, SUMS, TOGETHER, part_rows, splits,
                          whole_queries, width)
from .rounded_products import RoundedMatrix, stages_on
from .table_update import TableShape, TableUpdate
from .tile_products import padded

LOG_2 = 0.6931471805599453


class FlashSoftmax:
    """See TableSoftmax, whose attributes it has."""

    def __init__(self, device: Device, matmul: str, shape: TableShape, rule: Tuple):
        """matmul: tf32. rule: as kernels take it."""
        from triton.tools.tensor_descriptor import TensorDescriptor  # only here: without a GPU there is no Triton

        from . import flash_kernels

        set_matmul(matmul)  # for torch's own products
        self._device, self._kernels, self._shape = device, flash_kernels, shape
        self._pieces, zeros = TensorDescriptor.from_tensor, device.zeros
        self._width, queries = width(shape.dim), whole_queries(shape.queries)
        self._part = part_rows(shape.rows)
        self._each, count = splits(shape.queries, self._part)
        self.query, self._in_log_2 = (zeros(shape.queries, padded(shape.dim))[:, : shape.dim] for _ in range(2))
        self._asked = RoundedMatrix(device, queries, self._width)
        self._parts = [RoundedMatrix(device, self._part, self._width) for _ in range(2)]
        self._scalings = zeros(-(-shape.rows // self._part), 3)  # of parts
        self._largest, self._total = zeros(count, queries), zeros(count, queries)
        self._weighted = zeros(count, queries, self._width)
        self._less, self._offset, self._gradient_unit = zeros(queries), zeros(shape.queries), zeros(1)
        self._log_sum, self._mean = zeros(shape.queries), zeros(shape.queries, shape.dim)
        self._wanted = zeros(shape.in_batch + 1, shape.queries)  # the last row is of none of the batch's
        self._of_part = None if rule[0] == "adagrad" else zeros(min(GRADIENT_PART, shape.rows), shape.dim)
        self._numbers = zeros(shape.queries, dtype=np.int64)
        device.submit(lambda: self._numbers.copy_(torch.arange(shape.queries)))
        self._update = TableUpdate(device, shape, rule)

    def begin(self, table, batch_rows):
        """See TableSoftmax.begin."""
        self._side_stream = self._device.side_stream()
        self._side_stream.run(lambda: self._begin(table, batch_rows))

    def _begin(self, table: torch.Tensor, batch_rows: torch.Tensor) -> None:
        self._update.begin(batch_rows)
        self._largest.fill_(LEAST_SCORE)
        self._total.zero_()
        self._weighted.zero_()
        self._round(table, 0)

    def apply(self, table: torch.Tensor, targets: Tuple, scale: torch.Tensor, step: torch.Tensor,
              weight: float = 1.0) -> torch.Tensor:
        """See TableSoftmax.apply. targets: of OneAnswer, rows of the batch."""
        target, dim = targets[0], self._shape.dim
        self._asked.round(torch.mul(self.query, 1 / LOG_2, out=self._in_log_2), whole_queries(len(self.query)))
        slope_scale = scale if weight == 1.0 else weight * scale
        log_sum, mean = self._score_queries(table, slope_scale)
        self._side_stream = self._device.side_stream(fills_device=True)  # during the work on the queries' gradient
        self._side_stream.run(lambda: self._differentiate_rows(table))
        wanted = table[:, :dim].index_select(0, target)  # rows of the batch, which wait
        self._loss = ((LOG_2 * log_sum - (self.query * wanted).sum(1)).double() * scale).sum()
        slot = self._update.slots.index_select(0, target).long()
        self._wanted.zero_().index_put_((slot, self._numbers), -slope_scale)
        return slope_scale[:, None] * (mean - wanted)

    def end(self, batch_rows, sums):
        """See TableSoftmax.end."""
        sums.addmm_(self._wanted[:-1], self.query)  # the targets, rows of the batch, have -scale times the query
        self._side_stream.join()
        self._update.end(batch_rows, sums)
        return self._loss

    def _score_queries(self, table: torch.Tensor, slope_scale: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """(B,) log2 of the sums of e^score, and (B, dim): the softmax's means of the table's rows."""
        queries, _, dim, _ = self._shape
        every, kernels = whole_queries(queries), self._kernels
        self._side_stream.join()
        for number in range(len(self._scalings)):
            side_stream = self._device.side_stream()  # rounding waits for memory, sums for tensor cores
            if number == 0:
                side_stream.run(lambda: self._prepare_slopes(slope_scale))
            if number + 1 < len(self._scalings):
                side_stream.run(lambda number=number: self._round(table, number + 1))
            part = self._parts[number % 2]
            pieces = self._pieces(part.values, [SUMS.rows, self._width])
            kernels.sums_of_queries[every // SUMS.queries, len(self._largest)](
                self._asked.values, self._asked.inverse, pieces, part.power, part.inverse, self._largest,
                self._total, self._weighted, len(part.values), self._each, ALL_QUERIES=every, WIDTH=self._width,
                QUERIES=SUMS.queries, ROWS=SUMS.rows, STAGES=stages_on(self._device, SUMS.stages), num_warps=SUMS.warps)
            side_stream.join()
        kernels.whole_sums[(every // TOGETHER,)](
            self._largest, self._total, self._weighted, self._offset, self._log_sum, self._less, self._mean, queries,
            SPLITS=len(self._largest), ALL_QUERIES=every, WIDTH=self._width, DIM=dim, QUERIES=TOGETHER)
        return self._log_sum, self._mean

    def _prepare_slopes(self, scale: torch.Tensor) -> None:
        """scale: of queries. What differs between them goes into the exponent."""
        most = scale.amax()
        torch.log2(scale / most, out=self._offset)
        torch.mul(self._asked.inverse, most * (LOG_2 * 2.0**-SHARE_BITS), out=self._gradient_unit)

    def _round(self, table: torch.Tensor, number: int) -> None:
        """A part of the table, into the place of the last but one."""
        rows = table[number * self._part : (number + 1) * self._part, : self._shape.dim]
        self._parts[number % 2].round(rows, len(rows))
        self._scalings[number].copy_(self._parts[number % 2].scaling)

    def _differentiate_rows(self, table: torch.Tensor) -> None:
        """Updates the rows but those of the batch, by what the softmax gives them: targets are not told apart."""
        queries, rows, dim = self._shape[:3]
        _, rate, epsilon, _ = self._update.rule
        is_fused = self._of_part is None
        each = rows if is_fused else len(self._of_part)
        for first in range(0, rows, each):
            count = min(each, rows - first)
            out = self._update.aside if is_fused else self._of_part
            self._kernels.gradients_of_rows[(-(-count // GRADIENTS.rows),)](
                self._asked.values, table, self._scalings, self._less, self._asked.inverse, self._gradient_unit,
                self._update.slots, out, self._update.aside, rate, epsilon, first, count, PART=self._part,
                ALL_QUERIES=whole_queries(queries), DIM=dim, STRIDE=table.stride(0), OUT_STRIDE=dim, WIDTH=self._width,
                QUERIES=GRADIENTS.queries, ROWS=GRADIENTS.rows, STAGES=stages_on(self._device, GRADIENTS.stages),
                ADAGRAD=is_fused, num_warps=GRADIENTS.warps)
            if not is_fused:
                self._update.apply(table, first, out[:count])
