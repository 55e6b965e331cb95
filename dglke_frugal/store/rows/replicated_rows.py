"""Rows of a table of which each of several ranks has a whole replica in its device's memory (csrc/comm)."""

from __future__ import annotations

from ... import _native
from ..device.device import Device
from ..device.plan_kernels import with_squares
from .resident_rows import ResidentRows


class ReplicatedRows(ResidentRows):
    """As ResidentRows, but a replica is updated by the gradients of all ranks, which synchronise inside the step.

    Ranks send each other the sums of their gradients of each row. The host table is the same for all ranks: they begin
    with what it holds, and rank 0 copies its replica to the host.
    """

    replicated = True

    def __init__(self, table: _native.HostTable, replica: _native.Replica, device: Device):
        """replica: of this rank with the others."""
        super().__init__(table, device)
        self._collective = replica
        self.resident = None  # the others' gradients come as sums of rows

    def update(self, plan, records, entries, used=None):
        """Sends this rank's sums; `receive` applies them."""
        entries = [with_squares(entry, self.device.stream) for entry in entries]
        self._collective.send(plan.rows, used, entries, self.device.stream)

    def receive(self, plan, records, used, learning_rate):
        self._collective.receive(self.cache, learning_rate, self.device.stream)

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
