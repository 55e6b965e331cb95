"""Products of a batch's queries with a tile of the entity table: (B, dim) times (dim, n), and back, in float32.

Those of the CPU have one order of sums whatever the number of threads; cuBLAS has one for each shape. In numbers of 16
bits: rounded_products.py.
"""

from __future__ import annotations

from typing import List, Optional

import torch

from ... import _native
from ...models.device.products import set_matmul
from ...store.device import Device
from .table_update import TableShape
from .tiles import DEVICE_TILE_FLOATS, HOST_TILE_FLOATS

WIDTH = 16  # floats that a product on the CPU writes at a time


def padded(columns: int) -> int:
    """The stride of rows that products write."""
    return -(-columns // WIDTH) * WIDTH


class HostProducts:
    """On the CPU.

    A batch's queries are given once, then one tile after the other, with its scores, slopes and gradients.

    Attributes:
        score_unit, gradient_unit: (1,) by what scores, and gradients of rows, are to be multiplied. None: by nothing.
    """

    tile_floats = HOST_TILE_FLOATS
    updates_rows = False  # whether they have RoundedProducts.update_rows
    score_unit: Optional[torch.Tensor] = None
    gradient_unit: Optional[torch.Tensor] = None

    def __init__(self, device: Device, matmul: str, shape: TableShape, tile: int):
        """matmul: fp32, or what falls back to it. tile: the rows of a tile, at most."""
        self._device = device
        if device.torch_device.type == "cuda":
            set_matmul(matmul)

    def ask(self, query: torch.Tensor) -> None:
        """Scores that come are of the queries (B, dim)."""
        self._query = query

    def weigh(self, query: torch.Tensor, scale: torch.Tensor) -> None:
        """Before slopes: the losses of the queries (B, dim) are multiplied by scale (B,)."""
        self._scale = scale

    def meet(self, tile: torch.Tensor) -> None:
        """What comes is of the rows (n, dim). Needs nothing of the queries."""
        self._tile = tile

    def scores(self, out: torch.Tensor) -> None:
        """out (B, n) = query tile^T."""
        _native.multiply(self._query, self._tile, out, True)

    def slopes(self, scores: torch.Tensor, first: int, bound: float, targets, log_sum: torch.Tensor) -> torch.Tensor:
        """(B, n) in place of the scores; see softmax_slopes."""
        _native.softmax_slopes(scores, first, bound, targets, log_sum, self._scale, self._device.stream)
        return scores

    def add_to_query(self, slopes: torch.Tensor, out: torch.Tensor) -> None:
        """out (B, dim) += slopes tile."""
        _native.multiply(slopes, self._tile, out, False, adds=True)

    def of_rows(self, slopes: torch.Tensor, out: torch.Tensor) -> None:
        """out (m, dim) = slopes^T query, of some of the rows: slopes (B, m)."""
        _native.multiply(slopes.t(), self._query, out, False)


class DeviceProducts(HostProducts):
    """On a CUDA device, by cuBLAS, which is slow where a number of rows is no whole vector: what is left over by a tile
    has products of its own."""

    tile_floats = DEVICE_TILE_FLOATS

    def scores(self, out):
        """See HostProducts."""
        for part in _vectors(len(self._tile)):
            torch.mm(self._query, self._tile[part].t(), out=out[:, part])

    def add_to_query(self, slopes, out):
        """See HostProducts."""
        for part in _vectors(len(self._tile)):
            out.addmm_(slopes[:, part], self._tile[part])

    def of_rows(self, slopes, out):
        """See HostProducts."""
        for part in _vectors(len(out)):
            torch.mm(slopes[:, part].t(), self._query, out=out[part])


def _vectors(rows: int) -> List[slice]:
    """All rows, in a part of whole vectors of 4 and the few that are left."""
    whole = rows // 4 * 4
    return [part for part in (slice(0, whole), slice(whole, rows)) if part.start < part.stop]
