"""Rows of a host table that several ranks' devices train without flush threads: they meet in each step.

Values go straight into host rows, and write-backs, too. A step begins with a meeting of all devices, whose steps before
are then done; gradients of rows that several ranks change are applied behind a second one
(csrc/replicas/shared_rows.h). So no gate waits, and the host runs ahead of its device. Rows that no rank has changed in
the STEPS_ON_DEVICE steps before arrive while those compute: an arrival comes behind the step as many before, and so
behind a meeting to which all ranks have come with their steps before that.
"""

from __future__ import annotations

from typing import Optional

from .. import _native
from .device import Device
from .engine_rows import MappedRows

ENTRIES = 2  # of a step


class MeetingRows(MappedRows):
    """exchange: the _native.ColumnExchange of the ranks, whose first region has exchanged_floats of room."""

    def __init__(self, table: _native.HostTable, port: _native.RankPort, slots: int, lookahead: int, device: Device,
                 exchange: _native.ColumnExchange):
        super().__init__(table, port, slots, lookahead, device)
        self._is_cuda = device.torch_device.type == "cuda"
        self._shared = _native.SharedTable(exchange, self.most_rows, ENTRIES,
                                           [port.staging_of(rank) for rank in range(port.ranks)])

    @staticmethod
    def exchanged_floats(rows: int) -> int:
        """What a rank puts out for a step of so many rows at most."""
        return _native.SharedTable.floats(rows, ENTRIES)

    def arrival(self, plan, records):
        return self.device.repeated(super().arrival(plan, records))

    def _arrive(self, plan, records):
        return super()._gather(plan, records, "host")

    def gather(self, plan, records):
        self._meet()
        super().gather(plan, records)

    def _gather(self, plan, records, part="cache"):  # and what has been changed lately
        return super()._gather(plan, records, part)

    def update(self, plan, records, entries, used=None) -> Optional[tuple]:
        offsets = [offset for _, offset, *_ in entries]
        self._shared.put(self._planned(plan, used), offsets, self.device.stream)
        return super().update(plan, records, entries, used)

    def receive(self, plan, records, used, learning_rate):
        self._meet()
        self._shared.apply(self._planned(plan, used), self.dim, records, self.table.records, learning_rate,
                           self.device.stream)

    def end(self):
        super().end()
        self._check()

    def drain(self):
        self.device.synchronize()
        self._check()
        super().drain()

    def _meet(self) -> None:
        self._shared.meet(self._is_cuda, self.device.stream)

    @staticmethod
    def _planned(plan, used):
        return plan.rows, plan.leave, plan.target, used

    def _check(self) -> None:
        sentence = self._shared.sentence
        if sentence:
            raise _native.EngineError(sentence)
