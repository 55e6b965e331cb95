"""Cross-entropy of queries' softmax over all rows of a table, or of each row alone; the table is updated in passing.

The table is processed tile by tile: for the sums of the softmax, and then for the slopes of the scores, from which a
tile's gradients come and at once its update. Scores are held for a tile, which may be the whole table and else has its
scores computed twice, and gradients for a part of it (tiles.py).
Rows of the batch have a gradient besides, which needs all tiles: theirs wait aside.

The same code runs on the CPU and on CUDA devices; kernels: csrc/full_softmax.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Optional, Tuple

import torch

from ... import _native
from ...store.device.device import Device
from .binary_slopes import binary_loss
from .entity_share import EntityShare
from .table_update import TableShape, TableUpdate
from .tile_products import padded
from .tiles import tile_rows, updates_at_once, whole_words


def on_gpu(device: Device) -> bool:
    """Whether the device runs kernels by Triton."""
    return device.torch_device.type == "cuda"


Drop = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]  # (values in place, step, number of the first row)


class TableSoftmax:
    """The softmax of a batch's queries over a table, and its buffers.

    Attributes:
        query: (B, dim), to be filled before `apply`.
    """

    def __init__(self, device: Device, matmul: str, products: type, shape: TableShape, rule: Tuple, bound: float = 0.0,
                 drop: Optional[Drop] = None, beside_update: bool = False, offset: Optional[float] = None,
                 share: Optional[EntityShare] = None):
        """products: of tile_products or RoundedProducts, for `matmul`. rule: as kernels take it. bound: of
        scores, 0 for none. drop: dropout of the table's rows; None for none. beside_update: whether it reads its table
        while another one is updated, for which side streams of that kind then wait. offset: of the scores of a binary
        cross-entropy (binary_slopes.py), on the CPU; None for a softmax, which an offset does not change. share: of
        the rows that are scored, those in the table; None for all."""
        self._share = share or EntityShare(shape.rows)
        self._device, self._bound, self._drop, self._offset = device, bound, drop, offset
        self._free_side_stream = partial(device.side_stream, fills_device=beside_update)
        self._rows, self._dim, zeros = shape.rows, shape.dim, device.zeros
        self._tile, self._part, self._summed = tile_rows(
            shape.queries, shape.rows, shape.dim, products.tile_floats, copied=drop is not None,
            held=products.held_floats if offset is None else 0)
        self._products = products(device, matmul, shape, self._tile)
        self._scores = zeros(shape.queries, padded(self._tile))
        self.query, self._of_query = (zeros(shape.queries, padded(shape.dim))[:, : shape.dim] for _ in range(2))
        self._at_once = products.updates_rows and on_gpu(device) and updates_at_once(matmul, rule[0],
                                                                                     float(drop is not None))
        if not self._at_once:
            self._of_part = zeros(whole_words(self._part), padded(shape.dim))[:, : shape.dim]
        self._copy = None if drop is None else zeros(self._tile, padded(shape.dim))[:, : shape.dim]
        self._update = TableUpdate(device, shape, rule)
        self._sums, self._no_sums = zeros(3, shape.queries), zeros(3, shape.queries)  # largest, total, wanted
        self._log_sum = zeros(shape.queries)  # stays, for work on a side stream
        device.submit(lambda: self._no_sums[0].fill_(_native.LEAST_SCORE))

    def begin(self, table: torch.Tensor, batch_rows: torch.Tensor) -> None:
        """Before `apply`, during the work that makes the queries: what does not need them.

        batch_rows: (U,) int64; padding is the number of the table's rows."""
        self._table_side_stream = self._device.side_stream(fills_device=True)
        if self._drop is None:
            self._table_side_stream.run(lambda: self._products.set_tile(table[: self._tile, : self._dim]))
        self._side_stream = self._free_side_stream()
        self._side_stream.run(lambda: self._begin(batch_rows))

    def _begin(self, batch_rows: torch.Tensor) -> None:
        self._update.begin(batch_rows)
        self._sums.copy_(self._no_sums)
        self._of_query.zero_()

    def apply(self, table: torch.Tensor, targets: Tuple, scale: torch.Tensor, step: torch.Tensor,
              weight: float = 1.0) -> torch.Tensor:
        """Update all rows of the table (rows, stride) but those of the batch, until `end` at the latest.

        targets: see targets.py. scale: (B,), of queries. weight: of the loss. Returns the loss's gradient by the query.
        """
        products = self._products
        slope_scale = scale if weight == 1.0 else weight * scale
        if self._offset is not None:
            slope_scale = slope_scale / self._share.entities
        products.ask(self.query)
        self._side_stream.join()
        self._table_side_stream.join()
        self._side_stream = self._free_side_stream()
        self._side_stream.run(lambda: products.weigh(self.query, slope_scale))
        log_sum = self._softmax_sums(table, targets, scale, step) if self._offset is None else None
        self._side_stream.join()

        lost, skipped = 0.0, self._share.first
        for first, tile in self._tiles(table, step, again=log_sum is not None):
            is_all = len(tile) == self._rows  # then a softmax has its scores already
            scores = self._scores[:, : len(tile)]
            if log_sum is None:
                scores = self._score(tile).add_(self._offset)
                lost = lost + binary_loss(scores, skipped + first, self._bound, targets)
            elif not is_all:
                scores = self._score(tile)
            slopes = products.slopes(scores, skipped + first, self._bound, targets, log_sum)
            products.add_to_query(slopes, self._of_query)
            if self._at_once:
                # The steps that follow for the queries' gradient do not wait for the update.
                self._side_stream = self._device.side_stream()
                self._side_stream.run(partial(products.update_rows, slopes, table, first, self._update))
                if not is_all:  # the next tile's slopes take their place
                    self._side_stream.join()
                continue
            for begin in range(0, len(tile), self._part):
                part = slice(begin, min(begin + self._part, len(tile)))
                of_part = self._of_part[: part.stop - begin]
                products.of_rows(slopes[:, part], tile[part], of_part)
                if self._drop is not None:
                    self._drop(of_part, step, skipped + first + begin)
                self._update.apply(table, first + begin, of_part, products.gradient_unit)
        self._share.add(self._of_query)
        if log_sum is None:
            self._share.add(lost)
            self._loss_side_stream = self._device.side_stream()
            self._loss = (lost.double() * scale / self._share.entities).sum()
        return self._of_query

    def _softmax_sums(self, table: torch.Tensor, targets: Tuple, scale: torch.Tensor,
                      step: torch.Tensor) -> torch.Tensor:
        """(B,) the logarithm of each query's sum of e^score."""
        products, (largest, total, wanted) = self._products, self._sums
        for first, tile in self._tiles(table, step):
            scores = self._score(tile, is_met=first == 0 and self._drop is None)
            _native.softmax_add_tile(scores, self._share.first + first, self._bound, targets, largest, total, wanted,
                                     self._device.stream, products.score_unit, self._summed)
        self._share.combine(self._sums)
        log_sum = torch.add(largest, total.log(), out=self._log_sum)
        self._loss_side_stream = self._device.side_stream(fills_device=True)
        self._loss_side_stream.run(lambda: self._compute_loss(log_sum, wanted, scale))
        return log_sum

    def end(self, batch_rows: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        """Work that follows waits for the update. sums: (U, dim), to which the gradients by their scores of the batch's
        rows are added; these alone are not updated yet. Returns the loss without its weight, () float64."""
        if self._at_once:
            self._side_stream.join()
        self._loss_side_stream.join()
        self._update.end(batch_rows, sums)
        return self._loss

    def _compute_loss(self, log_sum: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor) -> None:
        self._loss = ((log_sum - wanted).double() * scale).sum()

    def _score(self, tile: torch.Tensor, is_met: bool = False) -> torch.Tensor:
        """(B, n) scores of a tile, which the products then are of, or are already."""
        if not is_met:
            self._products.set_tile(tile)
        scores = self._scores[:, : len(tile)]
        self._products.scores(scores)
        return scores

    def _tiles(self, table: torch.Tensor, step: torch.Tensor, again: bool = False):
        """(first, rows (n, dim)) of each tile; a copy where dropout drops some of it. again: in this step."""
        for first in range(0, self._rows, self._tile):
            tile = table[first : first + self._tile, : self._dim]
            if self._drop is not None:
                copy = self._copy[: len(tile)]
                is_made = again and len(tile) == self._rows
                tile = copy if is_made else self._drop(copy.copy_(tile), step, self._share.first + first)
            yield first, tile
