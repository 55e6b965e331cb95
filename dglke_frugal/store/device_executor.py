"""Lookups carried out on a device: its cache, host rows over the bus, three steps under way at a time."""
from __future__ import annotations

import weakref
from collections import deque
from typing import Callable, Dict, List, Optional, Tuple

import numpy as np
import torch

from .. import _native
from .device.cuda_device import CudaDevice, Stream
from .device.device import Device, Event, no_op
from .executor import Executor, RankExecutor
from .flushing import RankRows
from .request import Request, Sorted
from .rows.device_rows import STEPS_ON_DEVICE, DeviceRows, Plan

ALIGNMENT = 16  # bytes between the arrays of a block


class CallersDevice(CudaDevice):
    """A CUDA device whose submitted work goes to the stream that the caller's own work is on: neither waits for the
    other, and torch may use the results."""

    def __init__(self, index: int):
        current = torch.cuda.current_device() if torch.cuda.is_available() else None
        super().__init__(index, graphs=False)
        if current is not None:
            torch.cuda.set_device(current)
        self._callers: Dict[int, Stream] = {}  # by number
        self._shared: List[_native.HostRegistration] = []

    def _enter(self, stream):
        self.stream = stream.cuda_stream

    def _beside_work(self, stream, work, after, event=None):
        with self.current():
            return super()._beside_work(stream, work, after, event)

    def submit(self, work, after=None):
        """To the caller's stream, which is torch's current one already."""
        self.join()
        with self.current():
            super().submit(work, after)

    def share(self, array):
        self._shared.append(_native.HostRegistration(array))
        return array

    def release_shared(self) -> None:
        """Give back what `share` registered, when nothing is under way."""
        self._shared.clear()

    def register(self, table):
        with self.current():
            super().register(table)

    def zeros(self, *shape, dtype=np.float32):
        with self.current():
            return super().zeros(*shape, dtype=dtype)

    def join(self) -> None:
        """Work that is submitted from now on goes to the stream of the caller's own work."""
        number = torch._C._cuda_getCurrentRawStream(self.torch_device.index)  # a Stream takes as long as a launch
        if number != self._stream.number:
            if number not in self._callers:
                self._callers[number] = self._make_stream(torch.cuda.current_stream(self.torch_device))
            callers = self._callers[number]
            callers.wait(self._stream.record())
            self._stream, self.stream = callers, callers.number


class PinnedMemory:
    """Pinned memory for packed lookups or for ids, which is used again when nobody has its array any more."""

    def __init__(self, device: Device):
        self._device = device
        self._free: List[torch.Tensor] = []

    def array_for(self, size: int) -> np.ndarray:
        """(bytes,) uint8, at least `size`."""
        memory = self._free.pop() if self._free else None
        if memory is None or memory.numel() < size:
            memory = self._device.pinned(size, dtype=np.uint8)
        array = memory.numpy()
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array


def submit_with_callers(device: Device, work: Callable[[], None]) -> None:
    """Run work, which only enqueues, behind what the caller has enqueued and before what it enqueues next."""
    device.submit(work)
    if not isinstance(device, CallersDevice):
        device.record().wait()


def take_packed(request: Request, executor: Executor) -> np.ndarray:
    """The packed lookup of a request, which does not hold it any more, in packing memory of its executor."""
    packed, request.packed_in = request.packed_in, None
    if packed is None:
        packed = executor.packing_memory(len(request.lookup))
        request.lookup.pack(packed)
    return packed


def summing_up(device: Device, placed: _native.PlacedLookup, dim: int, gradients: torch.Tensor,
               numbers: Optional[np.ndarray]) -> Callable[[], None]:
    """Work that sets the sums of a lookup's gradients, which come as in Executor.update. Raises ValueError for others
    than rows of dim numbers on the device."""
    if gradients.shape[1] != dim or gradients.device != device.torch_device:
        raise ValueError(f"gradients are rows of {dim} numbers on {device.torch_device}")

    def work():
        given = None if numbers is None else device.upload(numbers)[placed.order]
        placed.sum_up(gradients.data_ptr(), gradients.stride(0), gradients.shape[0],
                      0 if given is None else given.data_ptr(), device.stream)

    return work


class LookupPlace:
    """Memory of a device for one packed lookup at a time, between records and the sums of their gradients.

    Attributes:
        records: (most, stride) float32 of the lookup's rows.
        sums: (most, dim) float32 of their gradients.
        packed: pinned memory that the lookup comes from; of one that the device has sorted none.
    """

    def __init__(self, device: Device, records: torch.Tensor, sums: torch.Tensor):
        self._device, self.records, self.sums = device, records, sums
        self._block = torch.empty(0, dtype=torch.uint8)
        self.packed: Optional[np.ndarray] = None

    def place(self, lookup: Sorted) -> _native.PlacedLookup:
        """The next lookup, where a copy brings it or the device has sorted it."""
        size = self._size_of(lookup)
        if size > self._block.numel():
            self._device.synchronize()  # nothing uses the old block any more
            self._make_room(size * 5 // 4 // ALIGNMENT * ALIGNMENT + ALIGNMENT)
        return self._memory.at(lookup)

    def _size_of(self, lookup: Sorted) -> int:
        return lookup.packed[-1]

    def _make_room(self, size: int) -> None:
        self._block = self._device.zeros(size, dtype=np.uint8)
        with self._device.current():
            self._memory = _native.LookupMemory(self._block, self.records, self.sums)

    def copy_from(self, first: int, lookup: Sorted) -> Tuple[int, int, int]:
        """How Device.copy brings the packed lookup from its byte `first` on."""
        return self._block.data_ptr() + first, self.packed.ctypes.data + first, lookup.packed[-1] - first


class _Turn(LookupPlace):
    """One step in STEPS_ON_DEVICE: where its lookup, its plan, its records and their sums of gradients are.

    Attributes:
        work: what a step does with its rows there (PreparedStep).
        copied: the event after the last copy to here.
    """

    def __init__(self, rows: DeviceRows, update: _native.SummedUpdate, max_rows: int, sums: torch.Tensor):
        super().__init__(rows.device, rows.device.zeros(max_rows, rows.stride), sums)
        self._rows, self._update = rows, update
        self.copied = Event()
        self._plan = self.work = None
        if rows.planned:
            self._plan = rows.plan_memory()
            with rows.device.current():
                self.work = rows.prepare(self._plan.plan, self.records, sums, update)

    def _size_of(self, lookup):
        return self._size_of_ids(lookup) if self.packed is None else super()._size_of(lookup)

    def _make_room(self, size):
        super()._make_room(size)
        if self._plan is None:
            ids = self._block.view(torch.int64)[: len(self.records)]  # at the beginning of what is packed
            with self._device.current():
                self.work = self._rows.prepare(Plan(ids), self.records, self.sums, self._update)

    @staticmethod
    def _size_of_ids(lookup: Sorted) -> int:
        return 8 * max(1, lookup.distinct)

    def copy(self, lookup: Sorted) -> Callable[[], None]:
        """Work that brings it to the device, and its plan. The plan has the rows, if there is one."""
        device, copies = self._device, []
        if self.packed is None:
            copies += self._sorted_rows(lookup)
        else:
            copies.append(self.copy_from(0 if self._plan is None else lookup.packed[1], lookup))
            if self._plan is not None:
                cell = self._rows.final_plan()
                copies.append((self._plan.memory.data_ptr(), cell.data_ptr(), cell.numel()))

        def work():
            for each in copies:
                device.copy(*each)

        return work

    def _sorted_rows(self, lookup: Sorted) -> List[Tuple[int, int, int]]:
        """Copies of a lookup that the device has sorted: neither its rows cross the bus again, nor what its plan has
        room for besides."""
        if self._plan is None:
            return [(self._block.data_ptr(), lookup.rows_address, self._size_of_ids(lookup))]
        rows, *others = (each for each in self._plan.plan.cut(lookup.distinct) if each is not None)
        to, source = self._plan.memory.data_ptr(), self._rows.final_plan().data_ptr()
        return [(rows.data_ptr(), lookup.rows_address, rows.nbytes),
                *((each.data_ptr(), each.data_ptr() - to + source, each.nbytes) for each in others)]


class DeviceExecutor(RankExecutor):
    """Carries out lookups with DeviceRows: all of a table there, or a cache and the bus."""

    def __init__(self, table, update, ranked: RankRows, window: int, max_rows: int, ranks: int = 1):
        """ranked: on a device. max_rows: distinct rows of a lookup, at most."""
        super().__init__(table, update, ranked, window, ranks)
        rows: DeviceRows = ranked.steps
        self._rows, self._device = rows, rows.device
        self.torch_device = rows.device.torch_device
        sums = rows.device.zeros(max_rows, rows.dim)
        self._turns = [_Turn(rows, update, max_rows, sums) for _ in range(STEPS_ON_DEVICE)]
        self._packing, self._pinned_ids = (PinnedMemory(self._device) for _ in range(2))
        self._written_back = deque(maxlen=STEPS_ON_DEVICE)

    def sorts_on_device(self, count):
        return self._device.sorts(count)

    def ids_memory(self, count):
        if not self.sorts_on_device(count):
            return super().ids_memory(count)
        return self._pinned_ids.array_for(8 * count).view(np.int64)[:count]

    def packing_memory(self, count):
        return self._packing.array_for(_native.Lookup.most_packed_bytes(count))

    def sort_ahead(self, request):
        if self.sorts_on_device(len(request.ids)):
            request.sort_on(self._device)
        else:
            super().sort_ahead(request)

    def announce(self, request):
        if self.sorts_on_device(len(request.ids)) and not self._device.has_sorted(request.sorted):
            request.sort_on(self._device)
        if self._several:
            return super().announce(request)
        self._rows.announce_lookup(self._announced, request.sorted)
        self._announced += 1

    def begin(self, request):
        turn = self._turns[self._begun % STEPS_ON_DEVICE]
        super().begin(request)
        self._request = request
        lookup = self._lookup = request.sorted
        turn.copied.wait()
        turn.packed = None if self._device.has_sorted(lookup) else take_packed(request, self)
        self._placed, self._turn = turn.place(lookup), turn
        copy, prefetch_rows = turn.copy(lookup), self._part(turn.work.prefetch)

        def prefetch():
            copy()
            prefetch_rows()

        after = self._written_back[0] if len(self._written_back) == STEPS_ON_DEVICE else None
        turn.copied = self._device.prefetch(prefetch, after)
        self._rows.wait()
        self._ungathered = self._part(turn.work.gather)

    def _part(self, works) -> Callable[[], None]:
        """Work of the running step's rows."""
        count, device = self._lookup.distinct, self._device

        def work():
            for each in works:
                each(count, device.stream)

        return work

    def gather(self):
        placed, device = self._placed, self._device
        values = torch.empty(len(self._lookup), self.table.dim, dtype=torch.float32, device=self.torch_device)
        self._with_callers(lambda: placed.read(values.data_ptr(), device.stream))
        return values

    def update(self, gradients, numbers=None):
        self._end(summing_up(self._device, self._placed, self.table.dim, gradients, numbers))

    def skip(self):
        if self._several:  # other ranks may wait for the gradients of rows that they use, too
            return self._end(self._turn.sums.zero_)
        self.rule.skips = True
        try:
            self._end(no_op)
        finally:
            self.rule.skips = False

    def _end(self, sum_up: Callable[[], object]) -> None:
        """sum_up: in submitted work, sets the sums of the running step."""
        update = self._part(self._turn.work.update)

        def work():
            sum_up()
            update()

        self._with_callers(work)
        written_back = self._device.write_back(self._part(self._turn.work.write_back))
        self._written_back.append(written_back)
        self._rows.leave(written_back)
        self._rows.end()
        if self._device.has_sorted(self._lookup):
            self._device.give_back(self._lookup, written_back)
            self._request.forget_sorted()

    def replace(self, positions, records, wanted):
        here, floats = self._turn.records, self.table.record_floats
        at = torch.from_numpy(np.asarray(positions, np.int64))
        before = []

        def work():
            there = at.to(self.torch_device)
            if wanted:
                before.append(here[there, :floats])
            here[there, :floats] = torch.from_numpy(records).to(self.torch_device)

        self._with_callers(work)
        return before[0].cpu().numpy() if wanted else None

    def _with_callers(self, work: Callable[[], None]) -> None:
        """Run the work behind what the caller has enqueued and before what it enqueues next, and behind the gathering
        of the running step's rows."""
        first, self._ungathered = self._ungathered, no_op

        def both():
            first()
            work()

        submit_with_callers(self._device, both)

    def close(self):
        self._device.synchronize()
        if isinstance(self._device, CallersDevice):
            self._rows.close()
            self._device.release_shared()
        super().close()
