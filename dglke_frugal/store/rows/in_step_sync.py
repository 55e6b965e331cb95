"""How several ranks' devices train a host table without flush threads: the ranks synchronise in each step.

Rows that one rank alone uses move as with a single GPU (CachedRows): they are prefetched during the steps
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

from typing import TYPE_CHECKING, Sequence

from ... import _native

if TYPE_CHECKING:  # which import torch
    from .cached_rows import CachedRows
    from .device_rows import Plan

ENTRIES = 2  # of a step


def exchanged_floats(rows: int) -> int:
    """Floats that a rank publishes for a step of so many rows at most."""
    return _native.SharedTable.floats(rows, ENTRIES)


class InStepSync:
    """One rank's part in the collectives of the steps of CachedRows."""

    def __init__(self, exchange: _native.Exchange, client: _native.EngineClient, rows: CachedRows):
        """exchange: of the ranks, whose first region has exchanged_floats of room."""
        self._rows, self._device = rows, rows.device
        self._is_cuda = rows.device.torch_device.type == "cuda"
        self._shared = _native.SharedTable(exchange, client.max_rows, ENTRIES,
                                           [client.staging_of(rank) for rank in range(client.ranks)])

    def wait(self) -> None:
        """In submitted work: until all ranks are here."""
        self._shared.barrier(self._is_cuda, self._device.stream)

    def send(self, plan: Plan, entries: Sequence, used) -> None:
        """In submitted work: this rank's gradients of rows that several ranks change. As DeviceRows.update."""
        offsets = [offset for _, offset, *_ in entries]
        self._shared.put((plan.rows, plan.leave, plan.target, used), offsets, self._device.stream)

    def receive(self, plan: Plan, records, used, learning_rate: float) -> None:
        """In submitted work: update those rows by the gradients of all ranks. As DeviceRows.receive."""
        self.wait()
        self._shared.apply((plan.rows, plan.leave, plan.target, used), self._rows.row_table, records, learning_rate,
                           self._device.stream)

    def check(self) -> None:
        """Raise _native.EngineError with the sentence of a rank that has failed."""
        if self._shared.sentence:
            raise _native.EngineError(self._shared.sentence)
