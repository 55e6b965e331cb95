"""Rows of a table of which each of several ranks has a whole replica in its device's memory (csrc/replicas)."""

from __future__ import annotations

from .. import _native
from .device import Device
from .device_rows import ResidentRows
from .plan_kernels import with_squares


class ReplicatedRows(ResidentRows):
    """As ResidentRows, but what updates a replica are the sums of all ranks, which meet inside the step.

    The host table is the same for all ranks: they begin with what it holds, and rank 0 brings its replica home.
    """

    replicated = True

    def __init__(self, table: _native.HostTable, replica: _native.Replica, device: Device):
        super().__init__(table, device)
        self.resident = None  # the others' gradients come as sums of rows
        self._replica = replica

    def update(self, plan, records, entries, used=None):
        """Puts out this rank's sums; `receive` applies them."""
        entries = [with_squares(entry, self.device.stream) for entry in entries]
        self._replica.send(plan.rows, used, entries, self.device.stream)

    def receive(self, plan, records, used, learning_rate):
        self._replica.receive(self.cache, learning_rate, self.device.stream)

    def end(self):
        super().end()
        self._check()

    def drain(self):
        self.device.synchronize()
        self._check()  # or the table would get what no step has computed
        if self._replica.rank == 0:
            super().drain()

    def _check(self) -> None:
        sentence = self._replica.sentence
        if sentence:
            raise _native.EngineError(sentence)
