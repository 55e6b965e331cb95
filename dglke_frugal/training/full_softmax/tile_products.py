"""Products of queries with a tile of the entity table: (B, dim) times (dim, n), and back.

Those of the CPU have one order of sums whatever the number of threads; cuBLAS has one for each shape.
"""

from __future__ import annotations

from typing import Dict, Optional

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
        self._query: Optional[torch.Tensor] = None
        self._spare: Optional[torch.Tensor] = None

    def begin(self, query: torch.Tensor) -> None:
        """What follows is of these queries (B, dim)."""
        self._query = query

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

    def of_entities(self, slopes: torch.Tensor, out: torch.Tensor) -> None:
        """out (n, dim) = slopes^T query."""
        _native.multiply(slopes.t(), self._query, out, False)


class DeviceProducts:
    """On a CUDA device, by cuBLAS, in float32 or with factors rounded to bfloat16."""

    tile_floats = DEVICE_TILE_FLOATS

    def __init__(self, matmul: str):
        set_matmul(matmul)
        self._rounded = matmul == "bf16"

    def begin(self, query):
        """See HostProducts."""
        self._query = self._factor(query)

    def scores(self, query, table, out):
        """See HostProducts."""
        self._mm(self._query, table.t(), out)

    def add_to_query(self, slopes, table, out):
        """See HostProducts."""
        if self._rounded:
            out += torch.mm(slopes.bfloat16(), table.bfloat16(), out_dtype=torch.float32)
        else:
            out.addmm_(slopes, table)

    def of_entities(self, slopes, out):
        """See HostProducts."""
        self._mm(slopes.t(), self._query, out)

    def _factor(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.bfloat16() if self._rounded else matrix

    def _mm(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        if self._rounded:
            out.copy_(torch.mm(self._factor(a), self._factor(b), out_dtype=torch.float32))
        else:
            torch.mm(a, b, out=out)


class TransposingProducts:
    """On a CUDA device, by cuBLAS in TF32, whose products are fastest where both factors lie along their depth.

    An H100's tensor cores read TF32 in that layout alone; cuBLAS takes older instructions for others.
    """

    tile_floats = DEVICE_TILE_FLOATS

    def __init__(self, stream: int):
        set_matmul("tf32")
        self._stream = stream
        self._buffers: Dict[str, torch.Tensor] = {}

    def begin(self, query):
        """See HostProducts."""
        self._query = self._transposed("query", query)

    def scores(self, query, table, out):
        """See HostProducts."""
        torch.mm(query, table.t(), out=out)

    def add_to_query(self, slopes, table, out):
        """See HostProducts."""
        out.addmm_(slopes, self._transposed("table", table).t())

    def of_entities(self, slopes, out):
        """See HostProducts."""
        torch.mm(self._transposed("slopes", slopes), self._query.t(), out=out)

    def _transposed(self, name: str, matrix: torch.Tensor) -> torch.Tensor:
        """A copy (columns, rows)."""
        rows, columns = matrix.shape
        if name not in self._buffers or self._buffers[name].numel() < padded(rows) * columns:
            self._buffers[name] = matrix.new_empty(padded(rows) * columns)
        copy = self._buffers[name][: padded(rows) * columns].view(columns, padded(rows))[:, :rows]
        _native.transpose(matrix, copy, self._stream)
        return copy
