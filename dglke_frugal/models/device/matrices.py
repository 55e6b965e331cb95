"""The matrices of a batch's edges (RESCAL's relations, TransR's projections): products with them, and their gradients.

M is an edge's matrix (height, width); B edges.
"""
from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import torch

from ... import _native


class Factors(NamedTuple):
    """Gradients by the matrices: the sum over k of left_k times right_k, and what is in `dense`."""

    left: torch.Tensor  # (B, k, height)
    right: torch.Tensor  # (B, k, width)
    dense: Optional[torch.Tensor] = None  # (B, height, width)


class EdgeMatrices:
    """Of each edge its own copy."""

    def __init__(self, rows: torch.Tensor, height: int):
        """rows: (B, height * width)."""
        self._matrices = rows.unflatten(-1, (height, -1))

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """M x for x (B, k, width): (B, k, height)."""
        return torch.bmm(x, self._matrices.transpose(1, 2))

    def back(self, x: torch.Tensor) -> torch.Tensor:
        """M^T x for x (B, k, height): (B, k, width)."""
        return torch.bmm(x, self._matrices)

    def in_rows(self) -> _native.MatrixRows:
        """As `projected` takes them: a table in which each edge has a row, with room for a state."""
        edges, height, width = self._matrices.shape
        table = torch.nn.functional.pad(self._matrices.flatten(1), (0, 1))
        counts = torch.arange(edges + 1, dtype=torch.int32, device=table.device)
        return _native.MatrixRows(table, counts[:-1].long(), height, width, counts, counts[:-1], counts[:-1])

    def gradient(self, left: torch.Tensor, right: torch.Tensor, dense: Optional[torch.Tensor] = None):
        """Gradients by the matrices, see Factors, as they are kept: here (B, height * width)."""
        gradient = torch.bmm(left.transpose(1, 2), right)
        if dense is not None:
            gradient += dense
        return gradient.flatten(1)


class TableMatrices:
    """Where their table lies in device memory; nothing of an edge's is copied."""

    def __init__(self, table: torch.Tensor, rows: torch.Tensor, shape: Tuple[int, int], offset: torch.Tensor,
                 occurrence: torch.Tensor, slot: torch.Tensor, stream: int):
        """As _native.MatrixRows takes them, with shape = (height, width). stream: the device's."""
        self.shape, self._stream = shape, stream
        self._table, self._ids, self._slot = table[:, : shape[0] * shape[1]], rows, slot
        self._rows = _native.MatrixRows(table, rows, *shape, offset, occurrence, slot)

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """See EdgeMatrices.times."""
        return self._products(False, x, self.shape[0])

    def back(self, x: torch.Tensor) -> torch.Tensor:
        """See EdgeMatrices.back."""
        return self._products(True, x, self.shape[1])

    def _products(self, transposed: bool, x: torch.Tensor, length: int) -> torch.Tensor:
        y = x.new_empty(*x.shape[:2], length)
        self._rows.products(transposed, x.contiguous(), y, self._stream)
        return y

    def in_rows(self) -> _native.MatrixRows:
        """See EdgeMatrices.in_rows; here those of the table."""
        return self._rows

    def gradient(self, left: torch.Tensor, right: torch.Tensor, dense: Optional[torch.Tensor] = None) -> Factors:
        """See EdgeMatrices.gradient; here kept as Factors, which `update` takes."""
        return Factors(left.contiguous(), right.contiguous(), dense)

    @property
    def amounts(self) -> int:
        """How many amounts `update` writes."""
        return self._rows.tiles * len(self._slot)

    def update(self, entries: List[Factors], learning_rate: float, norm: float = 0.0, coefficient: float = 0.0,
               amounts: Optional[torch.Tensor] = None) -> None:
        """Row-wise Adagrad, in place, for entries one after the other.

        With amounts (self.amounts,), the gradient of coefficient * |x|^norm is added to every gradient, and they become
        numbers that add up to the sum of |x|^norm over all edges' matrices before the step.
        """
        tiles, rows, edges = self._rows.tiles, len(self._ids), len(self._slot)
        factor = 0.0 if amounts is None else coefficient * norm
        squares = self._table.new_empty(len(entries), tiles, edges)
        by_tile = None if amounts is None else amounts.view(tiles, edges)
        self._rows.squares(entries, norm, factor, squares, by_tile, self._stream)
        deviations = self._table.new_empty(len(entries), rows)
        self._rows.update(entries, squares, norm, factor, learning_rate, deviations, self._stream)


def matrices_of(rows, height: int):
    """EdgeMatrices of rows (B, height * width); TableMatrices as they are."""
    return rows if isinstance(rows, TableMatrices) else EdgeMatrices(rows, height)
