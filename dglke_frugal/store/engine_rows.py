"""Rows of one rank behind a device's cache and the P2F engine: hot ones in device memory, the rest in host memory.

The host runs ahead of the device: it takes the plan of a step, waits for its gate, enqueues the step and goes on. What
the device has done shows in two counters that its own work advances (csrc/engine/rank_port.h).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from typing import Callable, Optional

import numpy as np
import torch

from .. import _native
from .device import Device, Event, Watch, no_op
from .device_rows import NO_OCCURRENCES, STEPS_ON_DEVICE, DeviceRows, Plan, PlanMemory, arrays_of
from .flush_config import SMALL_TABLE
from .half_embeddings import Rounding
from .plan_kernels import (FROM_HOST, IN_FLIGHT, TO_CACHE, TO_GRADIENT, TO_HOST_ROW, TO_VALUE, WRITE_BACK, as_bytes,
                           pack_host_rows, prepare_arrival, prepare_return, prepare_set_aside, write_back_rows)
from .plans_ahead import PlansAhead

STEPS_IN_FLIGHT = 3  # that the host may enqueue beyond the one that the device runs
POLL_MICROSECONDS = 20  # how often flush threads look at the counters, which nobody can wake them for


def _counter(address: int) -> np.ndarray:
    """The 64-bit counter at an address, as an array of one."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(address))


class EngineRows(DeviceRows):
    """What both ways over the bus share. The engine must allow `lookahead + STEPS_IN_FLIGHT` registered steps."""

    host_read: str  # "uva" or "copy"

    def __init__(self, table: _native.HostTable, port: _native.RankPort, slots: int, lookahead: int, device: Device,
                 more: int = 0, rounding: Optional[Rounding] = None):
        super().__init__(table, device, slots, more, rounding)
        self._port, self.most_rows, self._sends_gradients = port, port.max_rows, port.ranks > 1
        self._cells = {}  # of plans, each used in turn
        self._window = lookahead + STEPS_IN_FLIGHT
        self._first = -1  # the engine counts steps from 0, a resumed run does not
        self._step = -1
        self._departed: Optional[Event] = None  # behind the last step that left
        self._events = deque()  # (step, event) of steps that may not have run yet
        self._write_backs = 0
        self._staging_floats = port.staging()
        self._watch = Watch(device, lambda sentence: port.fail(f"Rank {port.rank}: {sentence}"))

    @property
    def sends_gradients(self):
        return self._sends_gradients

    def announce(self, step, rows, occurrences=NO_OCCURRENCES):
        self._port.register_step(self._next(step), rows, occurrences)

    def _next(self, step: int) -> int:
        """The engine's number of a step that is announced, for which there is room when this returns."""
        if self._first < 0:
            self._first = step
            self._port.count_from(step)
        step -= self._first
        while self._events and self._events[0][0] < step - self._window:
            self._finish(*self._events.popleft())
        return step

    def begin(self, step):
        self._step = step - self._first
        while self.stalls.watch(self._port.begin, self._step, self.device.idle):
            self._serve(_as_records(*self._port.write_backs(self._step)))

    def wait(self):
        self.stalls.watch(self._port.wait_gate, self._step, self.device.idle)

    def plan_memory(self):
        memory = self.device.zeros(self._port.plan_bytes, dtype=np.uint8)
        return PlanMemory(memory, Plan(**arrays_of(memory, self._port.plan_fields)))

    def final_plan(self):
        """Where the planner has written it; `begin` has waited for that."""
        return self._cell(self._step)

    def _cell(self, step):
        """The plan of a step that is decided, in the engine's memory."""
        cell = step % self._port.plan_cells
        if cell not in self._cells:
            self._cells[cell] = torch.from_numpy(self._port.plan_cell(step))
        return self._cells[cell]

    def leave(self, departed):
        self._departed = departed

    def end(self):
        self._events.append((self._step, self._departed))

    def drain(self):
        while self._events:
            self._finish(*self._events.popleft())
        self.device.synchronize()
        rows, slots = self._port.drain()
        self._download(slots, rows)
        self._port.finish_drain()

    def close(self):
        self._watch.close()
        with contextlib.suppress(RuntimeError):  # of a device that failed, which whoever trained on it has heard
            self.device.synchronize()  # it must not write to memory that is gone

    def _serve(self, write_backs: np.ndarray) -> None:
        """Copy evicted rows (WRITE_BACK records) to where they are wanted, and publish that."""
        raise NotImplementedError

    def _finish(self, step: int, event) -> None:
        """Wait until the step has been published."""
        self.device.wait_for(event)


class MappedRows(EngineRows):
    """The device reads host rows and writes staging in place, and publishes a step itself."""

    host_read = "uva"

    def __init__(self, table, port, slots, lookahead, device, more=0, rounding=None):
        """The table must be shared with the device. Raises _native.DeviceError if the port's memory cannot be."""
        self._shared = device.share(port.shared_memory())
        super().__init__(table, port, slots, lookahead, device, more, rounding)
        self._published_counter = _counter(port.published_counter)
        self._write_backs_counter = _counter(port.write_backs_counter)

    def announce_entities(self, batch):
        if self.sends_gradients:
            super().announce_entities(batch)
        else:
            self._port.register_entities(self._next(batch.step), batch)

    def _staging(self):
        return self._staging_floats

    def _serve(self, write_backs, after=None):
        """after: an event that they come after."""
        count = len(write_backs)
        self._write_backs += count
        value, write_back = self._write_backs, self._writing_back()

        def work():
            write_back(self.device.upload(as_bytes(write_backs)))
            self.device.store(self._write_backs_counter, self.device.upload(np.array([value])))

        self.device.submit(work, after)
        self._port.note_write_backs(count)

    def _writing_back(self) -> Callable[[torch.Tensor], None]:
        """What brings write-backs ahead of the running step, as their bytes, to where they are wanted."""
        return lambda listed: write_back_rows(self.dim, self.table.records, self.cache, self._staging_floats, listed,
                                              self.device.stream, state=self.state)

    def _publish(self, plan):
        return [self.device.storing(self._published_counter, plan.published)]

    def end(self):
        super().end()
        self._port.note_published(self._step)

    def _finish(self, step, event):
        if self._published_counter[0] <= step:  # or the device has said so already
            super()._finish(step, event)


class DirectWriteRows(MappedRows):
    """Where one rank stores values into host rows itself: they are read and written beside the computation.

    A step leaves its values in slots on the device (csrc/engine/in_flight_slots.h). They go home while the next step
    computes and the one after that arrives, both of which find what they need of them in those slots, as their plans
    say; their other host rows are at home by then.
    """

    def __init__(self, table, port, slots, lookahead, device, max_rows: int, rounding: Optional[Rounding] = None):
        """max_rows: of a step."""
        super().__init__(table, port, slots, lookahead, device, STEPS_ON_DEVICE * max_rows, rounding)
        self._departed_before: Optional[Event] = None  # behind the step before that
        self._is_cuda = device.torch_device.type == "cuda"
        self._plans = PlansAhead(port, self._cell, device)
        self._turn = device.zeros(1, dtype=np.int32)  # of the kernel that brings rows home

    def _arrive(self, plan, records):
        return super()._gather(plan, records, "host", self._crossing())

    def whole_arrival(self, block, memory, plan, records):
        arrive = self._prepare_whole_arrival(block, memory, plan, records)

        def arrival(packed: int) -> Callable[[], None]:
            plans = self._plans.addresses(self._step)
            return lambda: arrive(packed, *plans, self.device.stream)

        return arrival

    def _prepare_whole_arrival(self, block, memory, plan, records) -> _native.PreparedArrival:
        return prepare_arrival(block, memory.memory, self.table.dim, self._host_rows(), plan.rows, plan.source, records,
                               self._crossing(), self.state, self.table.element)

    def _gather(self, plan, records, part="cache"):
        gather = super()._gather(plan, records, part)
        if plan.evicted is None:
            return gather
        # Behind it, since it still reads what the slots for values in flight have had.
        return [*gather, prepare_set_aside(self.dim, self.cache, plan.target, plan.evicted, plan.first_in_flight,
                                           self.state)]

    def reads(self, plan):
        if self.rounding or plan.evicted is not None:
            return None
        return self.dim, self.cache, self.cache, plan.rows, plan.source, "cache"

    def _publish(self, plan):
        return ()  # with the departure

    def _depart(self, plan):
        if self._is_cuda:
            published = self._published_counter, plan.published, self._turn
            return [self._return(plan, IN_FLIGHT, self._crossing(), *published)]
        return [self._return(plan, IN_FLIGHT, self._crossing()), *super()._publish(plan)]

    def _crossing(self) -> str:
        """How rows cross the bus beside the computation; see prepare_gather."""
        return "small_table" if self.table.records.nbytes <= SMALL_TABLE else "bus"

    def _return(self, plan, wanted, crossing, *publication):
        """A kernel that brings home the rows of the plan that leave as `wanted`."""
        return prepare_return(self.dim, self.table.records, self.cache, plan.rows, plan.leave, plan.target, crossing,
                              self.state, wanted, *publication, evicted=plan.evicted,
                              first_in_flight=plan.first_in_flight)

    def wait(self):
        """For nothing: no gate stands before reads that follow stores."""

    def leave(self, departed):
        self._departed_before = self._departed
        super().leave(departed)

    def _serve(self, write_backs):
        """The last step's departure may be on its way: rows that left with it have not been cached since."""
        super()._serve(write_backs, after=self._departed_before)
        self.device.arrive(no_op, after=self.device.record())  # the rows are read behind it


class CopiedRows(EngineRows):
    """For devices that cannot reach host memory: what arrives and what leaves goes through pinned memory, by the CPU.

    The host then waits for the device at every step.
    """

    host_read = "copy"

    def __init__(self, table, port, slots, lookahead, device, max_rows: int, max_gradients: int):
        """max_rows, max_gradients: of a step."""
        super().__init__(table, port, slots, lookahead, device)
        most = max(max_rows, max_gradients)  # a row leaves as one record, or as its gradients
        self._packed = device.pinned(max_rows, self.stride)
        self._device_packed = device.zeros(max_rows, self.stride)
        self._outbox = device.zeros(most, self.stride)
        self._inbox = device.pinned(most, self.stride)
        self._misses = 0
        self._gradients = deque()  # of each announced step, how many each row has
        self._leaving = None  # (leave, target) of the records in the outbox
        self._plan = device.pinned(port.plan_bytes, dtype=np.uint8)  # of the running step, amended
        self._amended = Plan(**{name: array.numpy() for name, array in arrays_of(self._plan, port.plan_fields).items()})

    def announce(self, step, rows, occurrences=NO_OCCURRENCES):
        self._gradients.append(occurrences.reshape(-1, max(1, len(rows))).sum(axis=0))
        super().announce(step, rows, occurrences)

    def begin(self, step):
        while self._events:
            self._finish(*self._events.popleft())
        super().begin(step)
        self.wait()  # the CPU reads host rows for it

    def final_plan(self):
        self._plan.numpy()[:] = self._port.plan_cell(self._step)
        self._amend(self._amended)
        return self._plan

    def _amend(self, plan):
        rows, source, leave, target = self._port.plan(self._step)
        if plan.evicted is not None:
            self._put_out(plan.evicted[: len(rows)], target)
        count, gradients = len(rows), self._gradients.popleft()
        # Values in flight are at home, also those that would stay: here a step begins when the one before has ended.
        stays = (leave == TO_CACHE) & (target > self.scratch)
        leave = np.where((leave == IN_FLIGHT) | stays, np.uint8(TO_HOST_ROW), leave)
        source = np.where(source > self.scratch, np.int32(FROM_HOST), source)
        plan.source[:count] = source
        self._misses = pack_host_rows(self.dim, self.table.records, rows, source, self._packed, plan.rows,
                                      state=self.state)
        plan.rows[:count][source != FROM_HOST] = 0
        plan.leave[:count][leave == TO_HOST_ROW] = TO_VALUE
        travels = np.flatnonzero(leave != TO_CACHE)
        leave, target = leave[travels], np.where(leave == TO_HOST_ROW, rows, target)[travels]
        records = np.where(leave == TO_GRADIENT, gradients[travels], 1)
        first = np.cumsum(records) - records
        plan.target[travels] = first * self.stride
        within = np.arange(records.sum()) - np.repeat(first, records)
        self._leaving = np.repeat(leave, records), np.repeat(target, records) + within * self.stride

    def _arrive(self, plan, records):
        return [self._copy_packed]

    def _copy_packed(self, *_):
        self.device.copy(self._device_packed.data_ptr(), self._packed.data_ptr(), 4 * self.stride * self._misses)

    def _host_rows(self):
        return self._device_packed

    def _staging(self):
        return self._outbox.view(-1)

    def _put_out(self, evicted, slots):
        """Bring home the rows that the running step puts out, before it takes their slots."""
        gone = np.flatnonzero(evicted >= 0)
        rows = evicted[gone]
        self._bring_home(_as_records(rows, slots[gone], np.full(len(gone), TO_HOST_ROW), rows))

    def _serve(self, write_backs):
        self._bring_home(write_backs)
        self._port.publish_write_backs(len(write_backs))

    def _bring_home(self, write_backs: np.ndarray) -> None:
        for first in range(0, len(write_backs), len(self._outbox)):
            part = write_backs[first : first + len(self._outbox)].copy()
            leaving = part["leave"].copy(), part["target"].copy()
            part["leave"], part["target"] = TO_VALUE, np.arange(len(part)) * self.stride

            def work(part=part):
                listed = self.device.upload(as_bytes(part))
                write_back_rows(self.dim, self._device_packed, self.cache, self._staging(), listed, self.device.stream,
                                state=self.state)

            self.device.submit(work)
            self._take(*leaving)

    def _finish(self, step, event):
        self._take(*self._leaving)
        self._port.publish(step)

    def _download(self, slots, rows):
        cached = slots < self.scratch  # what would have stayed behind the cache is at home
        super()._download(slots[cached], rows[cached])

    def _take(self, leave: np.ndarray, target: np.ndarray) -> None:
        """Bring the first records, or gradients, of the outbox to their places in host memory."""
        count = len(leave)
        self.device.submit(lambda: self._inbox[:count].copy_(self._outbox[:count], non_blocking=True))
        self.device.synchronize()
        floats = self.table.record_floats
        records = self._inbox.numpy()[:count, :floats]
        staged = leave != TO_HOST_ROW
        self._staging_floats.reshape(-1, self.stride)[target[staged] // self.stride, :floats] = records[staged]
        self.table.records[target[~staged], :floats] = records[~staged]


def _as_records(row, slot, leave, target) -> np.ndarray:
    records = np.zeros(len(row), WRITE_BACK)
    for name, values in (("row", row), ("slot", slot), ("leave", leave), ("target", target)):
        records[name] = values
    return records
