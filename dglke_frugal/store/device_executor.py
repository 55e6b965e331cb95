"""Lookups carried out on a device: its cache, host rows over the bus, three steps under way at a time."""
from __future__ import annotations

from collections import deque
from typing import Dict, List

import numpy as np
import torch

from .. import _native
from .device import CudaDevice, Device, Event
from .device_rows import STEPS_ON_DEVICE, DeviceRows, Plan
from .executor import RankExecutor
from .flushing import RankRows
from .plan_kernels import segment_sums

ALIGNMENT = 16  # bytes between the arrays of a block


class CallersDevice(CudaDevice):
    """A CUDA device whose work joins the stream that the caller's own work is on, so that torch may use the results."""

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
        """What is submitted from now on comes after the caller's work so far."""
        self._stream.wait_stream(torch.cuda.current_stream(self.torch_device))

    def hand_over(self) -> None:
        """The caller's work comes after what has been submitted."""
        torch.cuda.current_stream(self.torch_device).wait_stream(self._stream)


class _Block:
    """One step's lookup: arrays packed in pinned memory, and the same in device memory after one copy."""

    def __init__(self, device: Device):
        self._device, self._bytes = device, 0
        self.arrived = Event()  # behind the last step that was here

    def pack(self, arrays: List[np.ndarray]) -> None:
        """Set `device` to what the arrays are there after `copy`."""
        begins, size = [], 0
        for array in arrays:
            begins.append(size)
            size += -(-max(array.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        if size > self._bytes:
            self._device.synchronize()  # nothing uses the old ones any more
            self._bytes = size * 5 // 4
            self._pinned = self._device.pinned(self._bytes, dtype=np.uint8)
            self._at = self._device.zeros(self._bytes, dtype=np.uint8)
        packed = self._pinned.numpy()
        self.device = []
        for array, begin in zip(arrays, begins):
            view = packed[begin : begin + array.nbytes].view(array.dtype)
            view[:] = array
            self.device.append(self._at[begin : begin + array.nbytes].view(getattr(torch, array.dtype.name)))
        self._size = size

    def copy(self) -> None:
        """In submitted work: bring what was packed to the device."""
        self._at[: self._size].copy_(self._pinned[: self._size], non_blocking=True)


class DeviceExecutor(RankExecutor):
    """Carries out lookups with DeviceRows: all of a table there, or a cache and the bus."""

    def __init__(self, table, update, ranked: RankRows, window: int, max_rows: int):
        """ranked: on a device. max_rows: distinct rows of a lookup, at most."""
        super().__init__(table, update, ranked, window)
        rows: DeviceRows = ranked.steps
        self._rows, self._device = rows, rows.device
        self.torch_device = rows.device.torch_device
        self._blocks = [_Block(rows.device) for _ in range(STEPS_ON_DEVICE)]
        self._plans = [rows.plan_memory() for _ in range(STEPS_ON_DEVICE)] if rows.planned else []
        # One record more, which stays zero: what ids without a row read.
        self._records = [rows.device.zeros(max_rows + 1, rows.stride) for _ in range(STEPS_ON_DEVICE)]
        self._sums = rows.device.zeros(max_rows, rows.dim)
        self._departed = deque(maxlen=STEPS_ON_DEVICE)

    def begin(self, request):
        turn = self._begun % STEPS_ON_DEVICE
        super().begin(request)
        lookup, rows, device = self._lookup, self._rows, self._device
        block, records = self._blocks[turn], self._records[turn]
        block.arrived.wait()
        count = len(lookup.rows)
        block.pack([lookup.rows, lookup.inverse, lookup.offset, lookup.order])
        if rows.planned:
            final, (memory, plan) = rows.final_plan(), self._plans[turn]
            plan = plan.cut(count)
        else:
            plan = Plan(block.device[0])
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
            records[count].zero_()
            if count:
                rows.gather(plan, records)

        device.submit(gather)
        self._plan, self._running = plan, (block, records)

    def gather(self):
        block, records = self._running
        values = torch.empty(len(self._lookup), self.table.dim, device=self.torch_device)
        self._with_callers(lambda: torch.index_select(records[:, : self.table.dim], 0, block.device[1], out=values))
        return values

    def update(self, gradients, order=None):
        block, records = self._running
        count = len(self._lookup.rows)

        def work():
            numbers = block.device[3] if order is None else self._device.upload(order)
            sums = self._sums[:count]
            if count:
                segment_sums(gradients, block.device[2], numbers, sums, self._device.stream)
                self._rows.update_from_sums(self._plan, records, sums, self.rule)
            self._rows.publish(self._plan)

        self._end(work)

    def skip(self):
        records, count = self._running[1], len(self._lookup.rows)

        def work():  # a sum of zeros moves nothing
            sums = self._sums[:count].zero_()
            if count:
                self._rows.update_from_sums(self._plan, records, sums, self.rule)
            self._rows.publish(self._plan)

        self._end(work)

    def _end(self, work) -> None:
        self._with_callers(work)
        departure = self._rows.departure(self._plan)
        departed = self._device.depart(departure)
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
        if isinstance(self._device, CallersDevice):
            self._device.join()
            self._device.submit(work)
            self._device.hand_over()
        else:
            self._device.submit(work)
            self._device.record().wait()

    def close(self):
        self._device.synchronize()
        if isinstance(self._device, CallersDevice):
            self._rows.close()
            self._device.release_shared()
        super().close()
