"""Rows of one rank behind a device's cache and the P2F engine: hot ones in device memory, the rest in host memory.

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
from ..._native import prepare_prefetch, prepare_write_back, prepare_stage_evicted, write_back_evicted
from ..device.device import Device, Event, Watch, no_op
from ..device.plan_kernels import WRITE_BACK_BUFFER, WRITE_BACK, as_bytes
from .device_rows import NO_OCCURRENCES, STEPS_ON_DEVICE, DeviceRows, Plan, PlanMemory, arrays_of
from .flush_config import SMALL_TABLE, FlushConfig
from .half_embeddings import Rounding
from .plans_ahead import PlansAhead

STEPS_ENQUEUED = _native.STEPS_ENQUEUED  # that the host may enqueue beyond the one that the device runs


def _counter(address: int) -> np.ndarray:
    """The 64-bit counter at an address, as an array of one."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(address))


class EngineRows(DeviceRows):
    """The device reads host rows and writes staging in place, and publishes a step itself."""

    _slots_behind_cache = 0  # times the rows of a step

    def __init__(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device: Device,
                 rounding: Optional[Rounding] = None):
        """client: of an engine for steps on devices. The table must be registered with the device. Raises
        _native.DeviceError if the client's memory cannot be."""
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
        self._watch = Watch(device, lambda sentence: client.fail(f"Rank {client.rank}: {sentence}"))

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
        return lambda listed: write_back_evicted(self.row_table, listed, self.device.stream)

    def _publish(self, plan):
        return [self.device.storing(self._published_counter, plan.published)]

    def _finish(self, step: int, event: Event) -> None:
        """Wait until the step has been published."""
        if self._published_counter[0] <= step:  # or the device has said so already
            self.device.wait_for(event)


class DirectWriteRows(EngineRows):
    """Where one rank stores values into host rows itself: they are read and written beside the computation.

    A step leaves its values in a write-back buffer on the device (csrc/engine/write_back_buffer.h). They are written
    to the host while the next step computes and the one after that is prefetched. Both steps read the values that
    they need from the buffer, as their plans say; all other host rows are up to date by then.
    """

    _read_by_kernels = "cache"
    _slots_behind_cache = STEPS_ON_DEVICE

    def __init__(self, table, client, config, device, rounding=None):
        super().__init__(table, client, config, device, rounding)
        self._written_back_before: Optional[Event] = None  # behind the step before that
        self._is_cuda = device.torch_device.type == "cuda"
        self._plans = PlansAhead(client, self._cell, device)
        self._turn = device.zeros(1, dtype=np.int32)  # of the write-back kernel

    def _prefetch(self, plan, records):
        return super()._gather(plan, records, "host", self._crossing())

    def whole_prefetch(self, block, memory, plan, records):
        run = self._prepare_whole_prefetch(block, memory, plan, records)

        def prefetch(packed: int) -> Callable[[], None]:
            plans = self._plans.addresses(self._step)
            return lambda: run(packed, *plans, self.device.stream)

        return prefetch

    def _prepare_whole_prefetch(self, block, memory, plan, records) -> _native.PreparedPrefetch:
        return prepare_prefetch(self.row_table, block, memory.memory, plan.rows, plan.source, records, self._crossing())

    def _gather(self, plan, records, part="cache"):
        gather = super()._gather(plan, records, part)
        if plan.evicted is None:
            return gather
        # After the gather, which still reads the old values of the write-back buffer.
        return [*gather, prepare_stage_evicted(self.row_table, plan.target, plan.evicted, plan.first_buffer_slot)]

    def _publish(self, plan):
        return ()  # the write-back does it

    def _write_back(self, plan):
        if self._is_cuda:
            published = self._published_counter, plan.published, self._turn
            return [self._write_back_kernel(plan, WRITE_BACK_BUFFER, self._crossing(), *published)]
        return [self._write_back_kernel(plan, WRITE_BACK_BUFFER, self._crossing()), *super()._publish(plan)]

    def _crossing(self) -> str:
        """How rows cross the bus beside the computation; see prepare_gather."""
        return "small_table" if self.table.records.nbytes <= SMALL_TABLE else "bus"

    def _write_back_kernel(self, plan, wanted, crossing, *publication):
        """A kernel that writes the rows of the plan to the host that leave as `wanted`."""
        return prepare_write_back(self.row_table, plan.rows, plan.leave, plan.target, crossing, wanted, *publication,
                                  evicted=plan.evicted, first_buffer_slot=plan.first_buffer_slot)

    def wait(self):
        """For nothing: no gate stands before reads that follow stores."""

    def leave(self, written_back):
        self._written_back_before = self._written_back
        super().leave(written_back)

    def _serve(self, write_backs):
        """The last step's write-back need not have ended: its rows have not been cached since."""
        super()._serve(write_backs, after=self._written_back_before)
        self.device.prefetch(no_op, after=self.device.record())  # the rows are read behind it


def _as_records(row, slot, leave, target) -> np.ndarray:
    records = np.zeros(len(row), WRITE_BACK)
    for name, values in (("row", row), ("slot", slot), ("leave", leave), ("target", target)):
        records[name] = values
    return records
