"""Products of queries with a tile of the entity table: (B, dim) times (dim, n), and back.

Those of the CPU have one order of sums whatever the number of threads; cuBLAS has one for each shape.
"""

from __future__ import annotations

from typing import List, Optional

import torch

from ... import _native
from ...models.device.products import set_matmul
from .tiles import DEVICE_TILE_FLOATS, HOST_TILE_FLOATS

WIDTH = 16  # floats that a product on the CPU writes at a time


def padded(columns: int) -> int:
    """The stride of rows that products write."""
    return -(-columns // WIDTH) * WIDTH


class HostProducts:
    """On the CPU."""

    tile_floats = HOST_TILE_FLOATS

    def __init__(self):
        self._spare: Optional[torch.Tensor] = None

    def scores(self, query: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        """out (B, n) = query table^T."""
        _native.multiply(query, table, out, True)

    def add_to_query(self, slopes: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        """out (B, dim) += slopes table."""
        if self._spare is None or self._spare.shape[0] < len(out) or self._spare.stride(0) != out.stride(0):
            self._spare = torch.zeros(len(out), out.stride(0))
        product = self._spare[: len(out), : out.shape[1]]
        _native.multiply(slopes, table, product, False)
        out += product

    def of_entities(self, slopes: torch.Tensor, query: torch.Tensor, out: torch.Tensor) -> None:
        """out (n, dim) = slopes^T query."""
        _native.multiply(slopes.t(), query, out, False)


class DeviceProducts:
    """On a CUDA device, by cuBLAS, which is slow where a number of rows is no whole vector: what is left over by a tile
    has products of its own."""

    tile_floats = DEVICE_TILE_FLOATS

    def __init__(self, matmul: str):
        set_matmul(matmul)
        self._rounded = matmul == "bf16"

    def scores(self, query, table, out):
        """See HostProducts."""
        for part in _vectors(len(table)):
            self._mm(query, table[part].t(), out[:, part])

    def add_to_query(self, slopes, table, out):
        """See HostProducts."""
        for part in _vectors(len(table)):
            if self._rounded:
                out += torch.mm(slopes[:, part].bfloat16(), table[part].bfloat16(), out_dtype=torch.float32)
            else:
                out.addmm_(slopes[:, part], table[part])

    def of_entities(self, slopes, query, out):
        """See HostProducts."""
        for part in _vectors(len(out)):
            self._mm(slopes[:, part].t(), query, out[part])

    def _mm(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        if self._rounded:
            out.copy_(torch.mm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32))
        else:
            torch.mm(a, b, out=out)


def _vectors(rows: int) -> List[slice]:
    """All rows, in a part of whole vectors of 8 (of bfloat16; of float32 they are 4) and the few that are left."""
    whole = rows // 8 * 8
    return [part for part in (slice(0, whole), slice(whole, rows)) if part.start < part.stop]
