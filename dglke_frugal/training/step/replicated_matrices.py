"""The matrices of a batch's edges where every rank has a replica of their table, and trains it on the edges of all
ranks.

A matrix's gradient by an edge is made of two vectors, or for TransR of some and a matrix. Ranks gather those of all
edges (store/rows/gathering.py), and each updates its replica from all of them, in the order of ranks and then of
edges. So replicas stay the same to the bit, and what ranks send is as long as what the edges' gradients are made of,
not as their matrices.
"""
from __future__ import annotations

from typing import List, Optional, Tuple

import torch

from ...models.device.matrices import Factors, TableMatrices
from ...store.rows.device_rows import DeviceRows


class ReplicatedMatrices(TableMatrices):
    """As TableMatrices of this rank's edges, but for the update, which is by the edges of all ranks."""

    def __init__(self, rows: DeviceRows, ids: torch.Tensor, shape: Tuple[int, int], offset: torch.Tensor,
                 occurrence: torch.Tensor, slot: torch.Tensor, stream: int):
        """rows: of the table, with a gathering. The rest is as for TableMatrices."""
        super().__init__(rows.resident, ids, shape, offset, occurrence, slot, stream)
        self._replica, self._gathering = rows, rows.gathering

    @property
    def amounts(self):
        return self._rows.tiles * self._gathering.ranks * self._gathering.most

    def update(self, entries: List[Factors], learning_rate: float, norm: float = 0.0, coefficient: float = 0.0,
               amounts: Optional[torch.Tensor] = None) -> None:
        """See TableMatrices.update. The amounts add up to the mean over ranks."""
        gathering, own = self._gathering, [part for entry in entries for part in entry if part is not None]
        edges = self._slot.new_full((gathering.most,), self._replica.scratch)
        edges[: len(self._slot)] = self._ids.index_select(0, self._slot)
        edges, *joined = gathering.gather([edges.view(torch.float32), *own], self._stream)
        of_all = iter(joined)
        factors = [Factors(*(part if part is None else next(of_all) for part in entry)) for entry in entries]
        if amounts is not None:
            amounts.zero_()  # padding has none
        self._of(edges.view(torch.int32)).update(factors, learning_rate, norm, coefficient, amounts)
        if amounts is not None:
            amounts /= gathering.ranks

    def _of(self, ids: torch.Tensor) -> TableMatrices:
        """Of edges by the rows (E,) int32 of their matrices. There is room for as many rows as edges; rows that no
        edge has, and the one for padding, stay as they are."""
        ordered, occurrence = torch.sort(ids, stable=True)
        begins = torch.ones_like(ordered)
        begins[1:] = ordered[1:] != ordered[:-1]
        number = begins.cumsum(0) - 1
        rows = torch.zeros_like(number).scatter_(0, number, ordered.long())  # edges of a row all write the same
        offset = torch.searchsorted(number, torch.arange(len(ids) + 1, device=ids.device), out_int32=True)
        offset = torch.minimum(offset, (ids < self._replica.scratch).sum(dtype=torch.int32))
        slot = torch.empty_like(number).scatter_(0, occurrence, number)
        return TableMatrices(self._replica.resident, rows, self.shape, offset, occurrence.int(), slot.int(),
                             self._stream)
