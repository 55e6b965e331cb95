"""Rows of a table of which each of several ranks has a whole replica in its device's memory (csrc/comm)."""

from __future__ import annotations

from typing import List, Sequence, Union

import torch

from ... import _native
from ..device.device import Device
from ..device.plan_kernels import with_squares
from .device_rows import ResidentRows
from .gathering import Gathering


class Replica(ResidentRows):
    """As ResidentRows, but a replica is updated by the gradients of all ranks, which synchronise inside the step.

    The host table is the same for all ranks: they begin with what it holds, and rank 0 copies its replica to the host.
    """

    def __init__(self, table: _native.HostTable, collective: Union[_native.Replica, _native.Exchange], device: Device):
        """collective: of this rank with the others."""
        super().__init__(table, device)
        self._collective = collective

    def end(self):
        super().end()
        self._check()

    def drain(self):
        self.device.synchronize()
        self._check()  # or the table would get what no step has computed
        if self._collective.rank == 0:
            super().drain()

    def _check(self) -> None:
        sentence = self._collective.sentence
        if sentence:
            raise _native.EngineError(sentence)


class ReplicatedRows(Replica):
    """Ranks send each other the sums of their gradients of each row."""

    replicated = True

    def __init__(self, table: _native.HostTable, replica: _native.Replica, device: Device):
        super().__init__(table, replica, device)
        self.resident = None  # the others' gradients come as sums of rows

    def update(self, plan, records, entries, used=None):
        """Sends this rank's sums; `receive` applies them."""
        entries = [with_squares(entry, self.device.stream) for entry in entries]
        self._collective.send(plan.rows, used, entries, self.device.stream)

    def receive(self, plan, records, used, learning_rate):
        self._collective.receive(self.cache, learning_rate, self.device.stream)


class FactorRows(Replica):
    """Rows that are longer than what their gradients are made of, as matrices are: ranks send each other that, and each
    makes the same update of all of it, where its rows lie.

    Attributes:
        ranks: how many there are.
        most: gradients of a rank's step, at most.
        padding: a row that is zero, for what only pads.
    """

    def __init__(self, table: _native.HostTable, gathering: Gathering, device: Device):
        super().__init__(table, gathering.exchange, device)
        self.ranks, self.most, self.padding = gathering.exchange.ranks, gathering.most, self.scratch

    def gather(self, parts: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """In submitted work: this rank's parts (n, ..) float32, n <= most, of all ranks: (ranks * most, ..) each, where
        what is behind a rank's own n is anything. All ranks give parts of the same shapes, but for n, in the same
        order."""
        arrays = [part.new_empty(self.ranks, self.most, *part.shape[1:]) for part in parts]
        for array, part in zip(arrays, parts):
            array[self._collective.rank, : len(part)] = part
        self._collective.gather([array.view(self.ranks, -1) for array in arrays], self.device.stream)
        return [array.flatten(0, 1) for array in arrays]
