"""Lookups carried out on a device: its cache, host rows over the bus, three steps under way at a time."""
from __future__ import annotations

from collections import deque
from typing import Dict, List

import numpy as np
import torch

from .. import _native
from .device import CudaDevice, Device, Event, new_events
from .device_rows import STEPS_ON_DEVICE, DeviceRows, Plan
from .executor import RankExecutor
from .flushing import RankRows
from .plan_kernels import segment_sums

ALIGNMENT = 16  # bytes between the arrays of a block


class CallersDevice(CudaDevice):
    """A CUDA device whose submitted work goes to the stream that the caller's own work is on: neither waits for the
    other, and torch may use the results."""

    def __init__(self, index: int):
        current = torch.cuda.current_device() if torch.cuda.is_available() else None
        super().__init__(index, graphs=False)
        if current is not None:
            torch.cuda.set_device(current)
        self._chosen: Dict[int, str] = {}
        self._shared: List[_native.HostRegistration] = []

    def _enter(self, stream):
        self.stream = stream.cuda_stream

    def _run(self, stream, work, after):
        with torch.cuda.device(self.torch_device), torch.cuda.stream(stream):
            super()._run(stream, work, after)

    def submit(self, work, after=None):
        """To the caller's stream, which is torch's current one already."""
        self.join()
        with torch.cuda.device(self.torch_device):
            super()._run(self._stream, work, after)

    def share(self, array):
        self._shared.append(_native.HostRegistration(array))
        return array

    def release_shared(self) -> None:
        """Give back what `share` registered, when nothing is under way."""
        self._shared.clear()

    def host_read(self, table, max_rows, wanted):
        """Asked once per table: what was registered stays so."""
        key = table.address
        if key not in self._chosen:
            with torch.cuda.device(self.torch_device):
                if not self._maps_host_memory:
                    self._chosen[key] = super().host_read(table, max_rows, wanted)
                else:
                    from .host_read import open_reader

                    _, chosen = open_reader(table, max_rows, self._memory, wanted)
                    self._chosen[key] = chosen.mode
        return self._chosen[key]

    def zeros(self, *shape, dtype=np.float32):
        with torch.cuda.device(self.torch_device):
            return super().zeros(*shape, dtype=dtype)

    def join(self) -> None:
        """What is submitted from now on goes to the stream that the caller's own work is on."""
        current = torch.cuda.current_stream(self.torch_device)
        if current != self._stream:
            current.wait_stream(self._stream)
            if current.cuda_stream not in self._events:  # before it is ours: a watch may look for them
                self._events[current.cuda_stream] = new_events()
            self._stream, self.stream = current, current.cuda_stream


class _Block:
    """One step's lookup in device memory.

    Attributes:
        inverse, offset, order, rows: its arrays there, after `copy`; rows only if they are wanted.
        arrived: behind the last step that was here.
    """

    def __init__(self, device: Device, with_rows: bool):
        self._device, self._with_rows = device, with_rows
        self._at = self.packed = torch.empty(0, dtype=torch.uint8)
        self.arrived = Event()

    def take(self, lookup: _native.Lookup, packed: torch.Tensor) -> None:
        """The next lookup, which is packed there."""
        *begins, end = lookup.packed
        self._size = end if self._with_rows else begins[3]
        if self._size > len(self._at):
            self._device.synchronize()  # nothing uses the old one any more
            self._at = self._device.zeros(self._size * 5 // 4 // ALIGNMENT * ALIGNMENT + ALIGNMENT, dtype=np.uint8)
        counts = len(lookup), len(lookup.rows) + 1, len(lookup.order)
        self.inverse, self.offset, self.order = (
            self._at[begin : begin + 4 * count].view(torch.int32) for begin, count in zip(begins, counts))
        if self._with_rows:
            self.rows = self._at[begins[3] : end].view(torch.int64)
        self.packed = packed

    def copy(self) -> None:
        """In submitted work: bring it to the device."""
        self._at[: self._size].copy_(self.packed[: self._size], non_blocking=True)


class DeviceExecutor(RankExecutor):
    """Carries out lookups with DeviceRows: all of a table there, or a cache and the bus."""

    def __init__(self, table, update, ranked: RankRows, window: int, max_rows: int):
        """ranked: on a device. max_rows: distinct rows of a lookup, at most."""
        super().__init__(table, update, ranked, window)
        rows: DeviceRows = ranked.steps
        self._rows, self._device = rows, rows.device
        self.torch_device = rows.device.torch_device
        self._blocks = [_Block(rows.device, with_rows=not rows.planned) for _ in range(STEPS_ON_DEVICE)]
        self._packing: List[torch.Tensor] = []  # pinned memory that nobody uses
        self._plans = [rows.plan_memory() for _ in range(STEPS_ON_DEVICE)] if rows.planned else []
        # One record more, which stays zero: what ids without a row read.
        self._records = [rows.device.zeros(max_rows + 1, rows.stride) for _ in range(STEPS_ON_DEVICE)]
        self._sums = rows.device.zeros(max_rows, rows.dim)
        self._departed = deque(maxlen=STEPS_ON_DEVICE)

    def packing_memory(self, count):
        size = _native.Lookup.most_packed_bytes(count)
        memory = self._packing.pop() if self._packing else None
        if memory is None or len(memory) < size:
            memory = self._device.pinned(size, dtype=np.uint8)
        return memory

    def begin(self, request):
        turn = self._begun % STEPS_ON_DEVICE
        super().begin(request)
        lookup, rows, device = self._lookup, self._rows, self._device
        block, records = self._blocks[turn], self._records[turn]
        block.arrived.wait()
        if len(block.packed):
            self._packing.append(block.packed)
        packed, request.packed_in = request.packed_in, None
        if packed is None:
            packed = self.packing_memory(len(lookup))
            lookup.pack(packed.numpy())
        block.take(lookup, packed)
        count = len(lookup.rows)
        if rows.planned:
            final, (memory, plan) = rows.final_plan(), self._plans[turn]
            plan = plan.cut(count)
        else:
            plan = Plan(block.rows)
        arrival = rows.arrival(plan, records)

        def arrive():
            block.copy()
            if rows.planned:
                memory.copy_(final, non_blocking=True)
            arrival()

        after = self._departed[0] if len(self._departed) == STEPS_ON_DEVICE else None
        block.arrived = device.arrive(arrive, after)
        rows.wait()

        def gather():
            if len(lookup.order) < len(lookup):
                records[count].zero_()  # for ids without a row
            if count:
                rows.gather(plan, records)

        device.submit(gather)
        self._plan, self._running = plan, (block, records)

    def gather(self):
        block, records = self._running
        inverse, dim = block.inverse, self.table.dim
        values = torch.empty(len(self._lookup), dim, device=self.torch_device)
        self._with_callers(lambda: torch.index_select(records[:, :dim], 0, inverse, out=values))
        return values

    def update(self, gradients, order=None):
        block = self._running[0]
        offset, numbers = block.offset, block.order

        def sum_up(sums):
            given = numbers if order is None else self._device.upload(order)
            segment_sums(gradients, offset, given, sums, self._device.stream)

        self._end(sum_up)

    def skip(self):
        self._end(torch.Tensor.zero_)  # which moves nothing

    def _end(self, sum_up) -> None:
        """sum_up(sums): in submitted work, of the running step's rows, if there are any."""
        plan, records, count = self._plan, self._running[1], len(self._lookup.rows)

        def work():
            sums = self._sums[:count]
            if count:
                sum_up(sums)
                self._rows.update_from_sums(plan, records, sums, self.rule)
            self._rows.publish(plan)

        self._with_callers(work)
        departed = self._device.depart(self._rows.departure(plan))
        self._departed.append(departed)
        self._rows.leave(departed)
        self._rows.end()

    def replace(self, positions, records, wanted):
        here, floats = self._running[1], self.table.record_floats
        at = torch.from_numpy(np.asarray(positions, np.int64))
        before = []

        def work():
            there = at.to(self.torch_device)
            if wanted:
                before.append(here[there, :floats])
            here[there, :floats] = torch.from_numpy(records).to(self.torch_device)

        self._with_callers(work)
        return before[0].cpu().numpy() if wanted else None

    def _with_callers(self, work) -> None:
        """Run the work behind what the caller has enqueued, and before what it enqueues next."""
        self._device.submit(work)
        if not isinstance(self._device, CallersDevice):
            self._device.record().wait()

    def close(self):
        self._device.synchronize()
        if isinstance(self._device, CallersDevice):
            self._rows.close()
            self._device.release_shared()
        super().close()
