"""Rows of one rank behind a device's cache and the P2F engine: hot ones in device memory, the rest in host memory, to
which flush threads bring new values from staging.

The host runs ahead of the device: it takes the plan of a step, waits for its gate, enqueues the step and goes on. What
the device has done shows in two counters that its own work advances (csrc/engine/engine_client.h).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from typing import Callable, Optional

import numpy as np
import torch

from ... import _native
from ..device.device import Device, Event, Watch
from ..device.plan_kernels import WRITE_BACK, as_bytes
from .device_rows import NO_OCCURRENCES, DeviceRows, Plan, PlanMemory, arrays_of
from .flush_config import FlushConfig
from .half_embeddings import Rounding

STEPS_ENQUEUED = _native.STEPS_ENQUEUED  # that the host may enqueue beyond the one that the device runs


def _counter(address: int) -> np.ndarray:
    """The 64-bit counter at an address, as an array of one."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(address))


class FlushedRows(DeviceRows):
    """The device reads host rows and writes staging in place, and publishes a step itself."""

    _slots_behind_cache = 0  # times the rows of a step

    def __init__(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device: Device,
                 rounding: Optional[Rounding] = None):
        """client: of an engine for steps on devices. Raises _native.DeviceError if the device cannot read the table, or
        the client's memory, in place."""
        self._shared = device.share(client.shared_memory())
        self._staging = client.staging()
        super().__init__(table, device, client.slots, self._slots_behind_cache * config.max_rows_per_step, rounding)
        self._client, self.most_rows, self._sends_gradients = client, client.max_rows, client.ranks > 1
        self._cells = {}  # of plans, each used in turn
        self._window = config.lookahead + STEPS_ENQUEUED
        self._first = -1  # the engine counts steps from 0, a resumed run does not
        self._step = -1
        self._written_back: Optional[Event] = None  # behind the last step that left
        self._events = deque()  # (step, event) of steps that may not have run yet
        self._write_backs = 0
        self._published_counter = _counter(client.published_counter)
        self._write_backs_counter = _counter(client.write_backs_counter)
        self._watch = Watch(device.check, lambda sentence: client.fail(f"Rank {client.rank}: {sentence}"))

    def _make_cache(self, slots):
        self.device.register(self.table)
        return super()._make_cache(slots)

    @property
    def sends_gradients(self):
        return self._sends_gradients

    def announce(self, step, rows, occurrences=NO_OCCURRENCES):
        self._client.register_step(self._next(step), rows, occurrences)

    def announce_lookup(self, step, lookup):
        self._client.register_lookup(self._next(step), lookup)  # the planner copies its rows

    def _next(self, step: int) -> int:
        """The engine's number of a step that is announced, for which there is room when this returns."""
        if self._first < 0:
            self._first = step
            self._client.count_from(step)
        step -= self._first
        while self._events and self._events[0][0] < step - self._window:
            self._finish(*self._events.popleft())
        return step

    def begin(self, step):
        self._step = step - self._first
        while self.stalls.watch(self._client.begin, self._step, self.device.idle):
            self._serve(_as_records(*self._client.write_backs(self._step)))

    def wait(self):
        self.stalls.watch(self._client.wait_gate, self._step, self.device.idle)

    def plan_memory(self):
        memory = self.device.zeros(self._client.plan_bytes, dtype=np.uint8)
        return PlanMemory(memory, Plan(**arrays_of(memory, self._client.plan_fields)))

    def final_plan(self):
        """Where the planner has written it; `begin` has waited for that."""
        return self._cell(self._step)

    def _cell(self, step):
        """The plan of a step that is decided, in the engine's memory."""
        cell = step % self._client.plan_cells
        if cell not in self._cells:
            self._cells[cell] = torch.from_numpy(self._client.plan_cell(step))
        return self._cells[cell]

    def leave(self, written_back):
        self._written_back = written_back

    def end(self):
        self._events.append((self._step, self._written_back))
        self._client.note_published(self._step)

    def drain(self):
        while self._events:
            self._finish(*self._events.popleft())
        self.device.synchronize()
        rows, slots = self._client.drain()
        self._download(slots, rows)
        self._client.finish_drain()

    def close(self):
        self._watch.close()
        with contextlib.suppress(RuntimeError):  # of a device that failed, which whoever trained on it has heard
            self.device.synchronize()  # it must not write to memory that is gone

    def announce_entities(self, batch):
        if self.sends_gradients:
            super().announce_entities(batch)
        else:
            self._client.register_entities(self._next(batch.step), batch)

    def _memory(self):
        return self.table.records, self.cache, self._staging

    def _serve(self, write_backs: np.ndarray, after: Optional[Event] = None) -> None:
        """Copy evicted rows (WRITE_BACK records) to where they are wanted, and publish that. after: an event that they
        come after."""
        count = len(write_backs)
        self._write_backs += count
        value, write_back = self._write_backs, self._writing_back()

        def work():
            write_back(self.device.upload(as_bytes(write_backs)))
            self.device.store(self._write_backs_counter, self.device.upload(np.array([value])))

        self.device.submit(work, after)
        self._client.note_write_backs(count)

    def _writing_back(self) -> Callable[[torch.Tensor], None]:
        """A function that copies evicted rows (WRITE_BACK records as bytes) to their targets before the running
        step."""
        return lambda listed: _native.write_back_evicted(self.row_table, listed, self.device.stream)

    def _publish(self, plan):
        return [self.device.storing(self._published_counter, plan.published)]

    def _finish(self, step: int, event: Event) -> None:
        """Wait until the step has been published."""
        if self._published_counter[0] <= step:  # or the device has said so already
            self.device.wait_for(event)


def _as_records(row, slot, leave, target) -> np.ndarray:
    records = np.zeros(len(row), WRITE_BACK)
    for name, values in (("row", row), ("slot", slot), ("leave", leave), ("target", target)):
        records[name] = values
    return records
