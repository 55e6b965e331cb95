"""What table_softmax.py does, for large tables of short rows on a GPU, whose scores cost more to keep than to compute.

Kernels: flash_kernels.py. They work in multiprocessors' own memory, so that next to nothing is kept beside the table.
"""

from __future__ import annotations

from typing import Tuple

import torch

from ...store.device import Device
from .flash_shape import GRADIENTS, PART, SUMS, splits
from .table_update import TableShape, TableUpdate

LOG_2 = 0.6931471805599453


class FlashSoftmax:
    """See TableSoftmax, whose attributes it has."""

    def __init__(self, device: Device, matmul: str, shape: TableShape, rule: Tuple):
        """matmul: "tf32" or "bf16"."""
        from . import flash_kernels  # only here, because there is no Triton without a GPU

        self._kernels, self._shape, self._rounded = flash_kernels, shape, matmul == "bf16"
        self._sums, self._gradients = SUMS[matmul], GRADIENTS[matmul]
        self._each, count = splits(shape.queries, shape.rows, self._sums)
        zeros = device.zeros
        self.query = zeros(shape.queries, shape.dim)
        self._transposed = zeros(shape.dim, -(-shape.queries // 4) * 4)  # rows begin at whole vectors
        self._largest, self._total = zeros(count, shape.queries), zeros(count, shape.queries)
        self._weighted = zeros(count, shape.queries, shape.dim)
        self._of_part = zeros(min(PART, shape.rows), shape.dim)
        self._update = TableUpdate(device, shape, rule)
        self.aside = self._update.aside

    def meet(self, table: torch.Tensor, batch_rows: torch.Tensor, targets: Tuple, scale: torch.Tensor,
             step: torch.Tensor, weight: float = 1.0) -> Tuple[torch.Tensor, torch.Tensor]:
        """See TableSoftmax.meet. targets: of OneAnswer."""
        target, dim = targets[0], self._shape.dim
        self._update.begin(batch_rows)
        log_sum, mean = self._meet_queries(table)
        wanted = table[:, :dim].index_select(0, target)
        loss = ((LOG_2 * log_sum - (self.query * wanted).sum(1)).double() * scale).sum()
        slope_scale = scale if weight == 1.0 else weight * scale
        self._transposed[:, : len(self.query)].copy_(self.query.t())
        for first in range(0, self._shape.rows, len(self._of_part)):
            of_part = self._of_part[: self._shape.rows - first]
            self._differentiate_rows(table, first, of_part, log_sum, slope_scale, target)
            self._update.apply(table, first, of_part)
        self._update.end(batch_rows)
        return loss, slope_scale[:, None] * (mean - wanted)

    def _meet_queries(self, table: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """(B,) log2 of the sums of e^score, and (B, dim): the softmax's means of the table's rows."""
        queries, rows, dim, launch = *self._shape[:3], self._sums
        grid = -(-queries // launch.queries), len(self._largest)
        self._kernels.sums_of_queries[grid](
            self.query, table, self._largest, self._total, self._weighted, queries, rows, self._each, DIM=dim,
            STRIDE=table.stride(0), QUERY_STRIDE=dim, WIDTH=_width(dim), QUERIES=launch.queries, ROWS=launch.rows,
            ROUNDED=self._rounded, num_warps=launch.warps, num_stages=launch.stages)
        largest = self._largest.amax(0)
        share = torch.exp2(self._largest - largest)
        total = (share * self._total).sum(0)
        return largest + total.log2(), (share[:, :, None] * self._weighted).sum(0) / total[:, None]

    def _differentiate_rows(self, table: torch.Tensor, first: int, out: torch.Tensor, log_sum: torch.Tensor,
                            scale: torch.Tensor, target: torch.Tensor) -> None:
        """out (n, dim): gradients of the rows first .. first + n."""
        dim, launch = self._shape.dim, self._gradients
        self._kernels.gradients_of_rows[(-(-len(out) // launch.rows),)](
            self.query, self._transposed, table, log_sum, scale, target, out, self._shape.queries, first, len(out),
            DIM=dim, STRIDE=table.stride(0), QUERY_STRIDE=dim, TRANSPOSED_STRIDE=self._transposed.stride(0),
            OUT_STRIDE=out.stride(0), WIDTH=_width(dim), QUERIES=launch.queries, ROWS=launch.rows,
            ROUNDED=self._rounded, num_warps=launch.warps, num_stages=launch.stages)


def _width(dim: int) -> int:
    """The power of two that Triton's tiles of rows have; 16 at least, for tensor cores."""
    return max(16, 1 << (dim - 1).bit_length())
