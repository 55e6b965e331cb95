"""Scores of a batch's queries (B, dim) and a tile of the entity table (n, dim), and the gradients of both, in float32:
products of matrices, or distances.

Products of the CPU have one order of sums whatever the number of threads; cuBLAS has one for each shape. In numbers of
16 bits: rounded_products.py.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import torch

from ... import _native
from ...models.device.products import set_matmul
from ...store.device.device import Device
from .binary_slopes import binary_slopes
from .row_sums import sums_of_rows
from .table_update import TableShape
from .tiles import DEVICE_TILE_FLOATS, HOST_HELD_FLOATS, HOST_TILE_FLOATS

WIDTH = 16  # floats that a product on the CPU writes at a time
LEAST_SQUARE = 1e-30  # of a distance, whose gradient is 0 from here on


def padded(columns: int) -> int:
    """The stride of rows that products write."""
    return -(-columns // WIDTH) * WIDTH


class HostProducts:
    """On the CPU.

    A batch's queries are given once, then one tile after the other, with its scores, slopes and gradients.

    Attributes:
        tile_floats, held_floats: as tiles.tile_rows takes them.
        score_unit, gradient_unit: (1,) by what scores, and gradients of rows, are to be multiplied. None: by nothing.
    """

    tile_floats, held_floats = HOST_TILE_FLOATS, HOST_HELD_FLOATS
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

    def set_tile(self, tile: torch.Tensor) -> None:
        """Calls that follow are about the rows (n, dim). Needs nothing of the queries."""
        self._tile = tile

    def scores(self, out: torch.Tensor) -> None:
        """out (B, n) = query tile^T."""
        _native.multiply(self._query, self._tile, out, True)

    def slopes(self, scores: torch.Tensor, first: int, bound: float, targets,
               log_sum: Optional[torch.Tensor]) -> torch.Tensor:
        """(B, n) in place of the scores; see softmax_slopes. log_sum: None for the slopes of binary_slopes."""
        if log_sum is None:
            binary_slopes(scores, first, bound, targets, self._scale)
        else:
            _native.softmax_slopes(scores, first, bound, targets, log_sum, self._scale, self._device.stream)
        return scores

    def add_to_query(self, slopes: torch.Tensor, out: torch.Tensor) -> None:
        """out (B, dim) += slopes tile."""
        _native.multiply(slopes, self._tile, out, False, adds=True)

    def of_rows(self, slopes: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
        """out (m, dim) = slopes^T query, of some rows (m, dim) of the tile: slopes (B, m)."""
        _native.multiply(slopes.t(), self._query, out, False)


class DeviceProducts(HostProducts):
    """On a CUDA device, by cuBLAS, which is slow where a number of rows is no whole vector: what is left over by a tile
    has products of its own."""

    tile_floats, held_floats = DEVICE_TILE_FLOATS, 0

    def scores(self, out):
        """See HostProducts."""
        for part in _vectors(len(self._tile)):
            torch.mm(self._query, self._tile[part].t(), out=out[:, part])

    def add_to_query(self, slopes, out):
        """See HostProducts."""
        for part in _vectors(len(self._tile)):
            out.addmm_(slopes[:, part], self._tile[part])

    def of_rows(self, slopes, rows, out):
        """See HostProducts."""
        for part in _vectors(len(out)):
            torch.mm(slopes[:, part].t(), self._query, out=out[part])


def _vectors(rows: int) -> List[slice]:
    """All rows, in a part of whole vectors of 4 and the few that are left."""
    whole = rows // 4 * 4
    return [part for part in (slice(0, whole), slice(whole, rows)) if part.start < part.stop]


class _Euclidean:
    """Scores are -|q - e|, from |q|^2 - 2 q.e + |e|^2."""

    held_floats = 0  # here and below, the order of gradients' sums follows from tiles

    def scores(self, out):
        """See HostProducts."""
        super().scores(out)
        own, others = (sums_of_rows(x * x) for x in (self._query, self._tile))
        out.mul_(-2.0).add_(own[:, None]).add_(others[None]).clamp_(min=LEAST_SQUARE).sqrt_()
        self._distance = out.clone()
        out.neg_()

    def slopes(self, scores, first, bound, targets, log_sum):
        """See HostProducts; divided by the distance, so that gradients are slopes times differences of rows."""
        slopes = super().slopes(scores, first, bound, targets, log_sum)
        return slopes.div_(self._distance).masked_fill_(self._distance <= LEAST_SQUARE**0.5, 0.0)

    def add_to_query(self, slopes, out):
        """See HostProducts."""
        super().add_to_query(slopes, out)
        out.sub_(sums_of_rows(slopes)[:, None] * self._query)

    def of_rows(self, slopes, rows, out):
        """See HostProducts."""
        super().of_rows(slopes, rows, out)
        # A sum over columns has no fixed order in torch, but one over rows has.
        out.sub_(sums_of_rows(slopes.t().contiguous())[:, None] * rows)


class _PairByPair(HostProducts):
    """Scores are minus a distance that no product gives; kernels make it pair by pair (csrc/models/pair_terms.h)."""

    held_floats = 0
    kind: _native.PairKind

    def ask(self, query):
        """See HostProducts."""
        super().ask(query.contiguous())

    def set_tile(self, tile):
        """See HostProducts."""
        super().set_tile(tile.contiguous())

    def scores(self, out):
        """See HostProducts."""
        distances = self._query.new_empty(1, len(self._query), len(self._tile))
        _native.pair_distances(self.kind, self._query[None], self._tile[None], distances, self._device.stream)
        torch.neg(distances[0], out=out)

    def add_to_query(self, slopes, out):
        """See HostProducts."""
        out.sub_(self._pulled(self._query, self._tile, slopes))

    def of_rows(self, slopes, rows, out):
        """See HostProducts."""
        torch.neg(self._pulled(rows.contiguous(), self._query, slopes.t()), out=out)

    def _pulled(self, mine, theirs, weights):
        gradients = torch.empty_like(mine)[None]
        _native.pair_gradients(self.kind, mine[None], theirs[None], weights[None], gradients, self._device.stream)
        return gradients[0]


class HostL2(_Euclidean, HostProducts):
    """Euclidean distances on the CPU."""


class DeviceL2(_Euclidean, DeviceProducts):
    """Euclidean distances on a CUDA device."""


class HostL1(_PairByPair):
    """Sums of absolute differences on the CPU."""

    kind = _native.PairKind.ABSOLUTE


class HostModulus(_PairByPair):
    """Sums of complex moduli of differences on the CPU."""

    kind = _native.PairKind.MODULUS


class DeviceL1(HostL1):
    """The same on a CUDA device."""

    tile_floats = DEVICE_TILE_FLOATS


class DeviceModulus(HostModulus):
    """The same on a CUDA device."""

    tile_floats = DEVICE_TILE_FLOATS


# By what a model compares queries with entities: what does on the CPU, and on a GPU.
DISTANCES: Dict[str, Tuple[type, type]] = {"l2": (HostL2, DeviceL2), "l1": (HostL1, DeviceL1),
                                           "modulus": (HostModulus, DeviceModulus)}
