"""Rows of a host table that several ranks' devices train without flush threads: the ranks synchronise in each step.

Rows that one rank alone uses move as with a single GPU (DirectWriteRows): they are prefetched during the steps
before, and written back from the write-back buffer during the next ones. A step has two collectives. It begins
with the first, after which a rank reads rows that other ranks have changed lately. After the second the gradients
of rows that several ranks change are applied (csrc/comm/shared_rows.h). So no gate waits, and the host runs
ahead of its device.

A device enters the first collective of step s after it has written evicted rows, and the rows that step s - 1
publishes before the synchronisation; those are written after the write-back of s - 2. Step s - 1 publishes a row
(PUBLISHED_BEFORE_SYNC) which another rank reads in s, instead of leaving it to the write-back of s - 1, which may
still be running. So after that collective the host has the value of each row that a rank reads and has in no
slot of its own, and no older value is still to be written, which could overwrite a value of s.

A prefetch waits for the write-back of the step STEPS_ON_DEVICE before, and so for the first collective of that
step: values that changed kLateSteps (csrc/engine/plan.h) before the prefetched step, or earlier, are written
back. The plan says that rows which changed later are read after the collective, or in a slot of the rank's own.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

from ... import _native
from ..device.device import Device
from ..device.plan_kernels import PUBLISHED_BEFORE_SYNC
from .engine_rows import DirectWriteRows, EngineRows
from .flush_config import FlushConfig

ENTRIES = 2  # of a step


class SynchronisedRows(DirectWriteRows):
    """exchange: the _native.Exchange of the ranks, whose first region has exchanged_floats of room."""

    publishes_before_sync = True
    _read_by_kernels = None  # none is read before the collective

    def __init__(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device: Device,
                 exchange: _native.Exchange):
        super().__init__(table, client, config, device)
        self._shared = _native.SharedTable(exchange, self.most_rows, ENTRIES,
                                           [client.staging_of(rank) for rank in range(client.ranks)])
        self._publications: Dict[int, Callable[[], None]] = {}  # by where the plan is

    @staticmethod
    def exchanged_floats(rows: int) -> int:
        """Floats that a rank publishes for a step of so many rows at most."""
        return _native.SharedTable.floats(rows, ENTRIES)

    def write_back(self, plan):
        host = self._write_back_kernel(plan, PUBLISHED_BEFORE_SYNC, "awaited")
        self._publications[plan.rows.data_ptr()] = self._all([host], plan)
        return super().write_back(plan)

    def publish_before_sync(self, plan):
        self.device.submit(self._publications[plan.rows.data_ptr()], after=self._written_back)

    def gather(self, plan, records):
        self._wait_for_ranks()
        super().gather(plan, records)

    def _serve(self, write_backs):
        EngineRows._serve(self, write_backs)  # after the rows that the step before publishes; such rows are read late

    def update(self, plan, records, entries, used=None) -> Optional[tuple]:
        offsets = [offset for _, offset, *_ in entries]
        self._shared.put(self._planned(plan, used), offsets, self.device.stream)
        return super().update(plan, records, entries, used)

    def receive(self, plan, records, used, learning_rate):
        self._wait_for_ranks()
        self._shared.apply(self._planned(plan, used), self.row_table, records, learning_rate, self.device.stream)

    def end(self):
        super().end()
        self._check()

    def drain(self):
        self.device.synchronize()
        self._check()
        super().drain()

    def _crossing(self):
        return "bus"  # by as many blocks as always: other ranks wait for the write-back

    def _wait_for_ranks(self) -> None:
        self._shared.barrier(self._is_cuda, self.device.stream)

    @staticmethod
    def _planned(plan, used):
        return plan.rows, plan.leave, plan.target, used

    def _check(self) -> None:
        sentence = self._shared.sentence
        if sentence:
            raise _native.EngineError(sentence)
