"""A CUDA device as steps compute on it: its streams, their events, and work that becomes CUDA graphs."""
from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections import deque
from typing import Callable, Deque, Optional, Set

import numpy as np
import torch

from ... import _native
from ...errors import InputError
from .device import NOTHING, Device, Event, Repeated, SideStream
from .id_sorter import IdSorter

EVENTS = 64  # events of a stream, used in turn
MANY_IDS = 1 << 18  # of a lookup, which the device sorts: for fewer its twenty launches cost the host more than a sort
_current = threading.local()  # .stream: of the device whose stream is torch's current one in this thread


class _CudaEvent(Event):
    def __init__(self, stream: torch.cuda.Stream):
        self.event = _native.StreamEvent(stream.device.index)

    def wait(self):
        self.event.wait()


class Stream:
    """One order of work of a CUDA device, and its events.

    Attributes:
        torch: the torch.cuda.Stream.
        number: what kernels and copies take for it.
    """

    make_event = _CudaEvent

    def __init__(self, stream: torch.cuda.Stream):
        self.torch, self.number = stream, stream.cuda_stream
        self._events: Deque[Event] = deque(self.make_event(stream) for _ in range(EVENTS))
        self.record()

    @property
    def last(self) -> Event:
        """The event that was recorded last."""
        return self._events[0]

    def wait(self, event: Event) -> None:
        """Work that the stream gets from now on waits for the event."""
        event.event.wait_in_stream(self.number)

    def record(self, event: Optional[Event] = None) -> Event:
        """Record `event` after all work so far, or else one of the stream's own EVENTS, which are used in turn: a wait
        for an older one waits longer than it needs to."""
        if event is None:
            self._events.rotate()
            event = self._events[0]
        event.event.record(self.number)
        return event


class CudaDevice(Device):
    """One CUDA device and its streams: of submitted work, of prefetches and of write-backs."""

    _make_stream = Stream

    def __init__(self, index: int, graphs: bool = True):
        """graphs: whether repeated work becomes a CUDA graph. Raises InputError if there is no such device."""
        devices, reason = _native.cuda_devices(with_free_memory=False)
        if not devices:
            raise InputError(f"--gpu {index} needs a CUDA device, but {reason}; leave --gpu out to train on the CPU")
        if not torch.cuda.is_available():
            raise InputError(f"--gpu {index} needs a PyTorch with CUDA, but this one ({torch.__version__}) sees no "
                             "device; install one for your driver, or leave --gpu out to train on the CPU")
        if index >= len(devices):
            raise InputError(f"--gpu {index} does not exist, this machine has {len(devices)} of them, counted from 0")
        # Without it cuBLAS may choose another order of sums from run to run. Read when its first product is made.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(self.torch_device)  # kernels are launched on the current one
        # Small transfer kernels are scheduled before kernels that fill the device, and the kernels of submitted work
        # before those of side streams that fill it.
        self._stream = self._make_stream(torch.cuda.Stream(self.torch_device, priority=-1))
        self._prefetches, self._write_backs = (
            self._make_stream(torch.cuda.Stream(self.torch_device, priority=-2)) for _ in range(2))
        self._side_stream, self._behind = (torch.cuda.Stream(self.torch_device, priority=level) for level in (-1, 0))
        self.stream = self._stream.number
        self._registrations = []  # of host memory, for as long as there is the device
        self._registered: Set[int] = set()  # addresses of tables
        self._maps_host_memory = bool(devices[index]["reads_host_by_same_address"])
        self._graphs = graphs
        self._sorter: Optional[IdSorter] = None
        self._graph_memory = torch.cuda.graph_pool_handle()  # for all: those with tensors run one by one and leave none
        self._capturing = threading.Lock()  # nobody may ask for a stream's state then

    def _enter(self, stream: torch.cuda.Stream) -> None:
        """Make it torch's current one, and it stays: to change it back each time takes longer than a launch."""
        self.stream = stream.cuda_stream
        if getattr(_current, "stream", 0) != self.stream:
            torch.cuda.set_stream(stream)
            _current.stream = self.stream

    def submit(self, work, after=None):
        if after is not None:
            self._stream.wait(after)
        self._enter(self._stream.torch)
        work()

    def make_event(self):
        return self._stream.make_event(self._stream.torch)

    def prefetch(self, work, after=None, event=None):
        prefetched = self._beside_work(self._prefetches, work, after, event)
        if event is None:
            self._stream.wait(prefetched)
        return prefetched

    def write_back(self, work, after=None):
        return self._beside_work(self._write_backs, work, after or self.record())

    def record(self):
        return self._stream.record()

    def _beside_work(self, stream: "Stream", work: Callable[[], None], after: Optional[Event],
                     event: Optional[Event] = None) -> Event:
        """Enqueue work on the stream of one direction of the bus, which torch need not know of: such work takes it as a
        number. Returns the event that is recorded after it: `event`, or one of the stream's own."""
        if after is not None:
            stream.wait(after)
        self.stream = stream.number
        try:
            work()
        finally:
            self.stream = self._stream.number
        return stream.record(event)

    def side_stream(self, fills_device=False):
        return _CudaSideStream(self, self._stream.torch, self._behind if fills_device else self._side_stream)

    def idle(self):
        return self._stream.torch.query()

    def check(self):
        if self._capturing.acquire(blocking=False):
            try:
                self._stream.last.event.passed()
            finally:
                self._capturing.release()

    def zeros(self, *shape, dtype=np.float32):
        try:
            with torch.cuda.stream(self._stream.torch):
                memory = torch.zeros(shape, dtype=_torch_type(dtype), device=self.torch_device)
        except torch.cuda.OutOfMemoryError as error:
            free, total = torch.cuda.mem_get_info(self.torch_device)
            wanted, free, total = (size / 2**30 for size in (np.prod(shape) * np.dtype(dtype).itemsize, free, total))
            raise _native.DeviceError(
                f"{self.torch_device} has no room for {wanted:.2f} GiB: {free:.2f} of {total:.2f} GiB are free; use a "
                "smaller --cache_size or --cache_ratio") from error
        self._prefetches.wait(self._stream.record())  # or they would write before the zeros
        return memory

    def pinned(self, *shape, dtype=np.float32):
        # For small buffers alone: torch rounds pinned memory up to a power of two.
        return torch.zeros(shape, dtype=_torch_type(dtype), pin_memory=True)

    def upload(self, array):
        return torch.from_numpy(array).pin_memory().to(self.torch_device, non_blocking=True)

    def share(self, array):
        self._registrations.append(_native.HostRegistration(array))
        return array

    def register(self, table):
        if not self._maps_host_memory:
            raise _native.DeviceError("the device does not address host memory as the host does")
        address = table.records.ctypes.data
        if table.is_managed:
            table.map_for(self.torch_device.index)
        elif address not in self._registered:
            self._registrations.append(_native.HostRegistration(table.records))
            self._registered.add(address)

    def store(self, counter, value):
        self.storing(counter, value)(1, self.stream)

    def storing(self, counter, value):
        return _native.prepare_publish(counter, value)

    def sorts(self, count):
        return count >= MANY_IDS

    def sort(self, ids, rows, owners):
        with self.current():
            if self._sorter is None:
                self._sorter = IdSorter(self, self._make_stream(torch.cuda.Stream(self.torch_device, priority=-2)))
            return self._sorter.sort(ids, rows, owners)

    def has_sorted(self, lookup):
        return isinstance(lookup, _native.DeviceLookup) and lookup.device == self.torch_device.index

    def give_back(self, lookup, after):
        self._sorter.give_back(lookup, after)

    def current(self):
        return NOTHING if torch.cuda.current_device() == self.torch_device.index else torch.cuda.device(
            self.torch_device)

    def copy(self, to, source, count):
        _native.enqueue_copy(to, source, count, self.stream)

    def fetch(self, pieces):
        if self._maps_host_memory and len(pieces) > 1:
            _native.fetch_pieces(pieces, self.stream)
        else:  # by the copy engine: for one piece a kernel would take multiprocessors from the running step
            super().fetch(pieces)

    def repeated(self, work, waits_for=None, records=None):
        repeated = Repeated(work, waits_for, records)
        return GraphedWork(lambda: self._in_order(repeated), self._capture) if self._graphs else repeated

    def repeat(self, repeated):
        self.submit(repeated if self._graphs else lambda: self._in_order(repeated))

    def _in_order(self, repeated: Repeated) -> None:
        """In submitted work: with its events, which become part of a graph that is captured."""
        if repeated.waits_for is not None:
            self._stream.wait(repeated.waits_for)
        repeated.work()
        if repeated.records is not None:
            self._stream.record(repeated.records)

    def _capture(self, work):
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self.torch_device)
        with self._capturing, _no_garbage_collection(), torch.cuda.graph(
                graph, pool=self._graph_memory, stream=stream, capture_error_mode="thread_local"):
            work()
        return graph


def _torch_type(dtype) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


@contextlib.contextmanager
def _no_garbage_collection():
    """The rest of an earlier device is not released meanwhile: CUDA would refuse, and its memory stay registered."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _CudaSideStream(SideStream):
    """On a stream that all side streams of a kind share; where work is captured, it becomes part of the graph."""

    def __init__(self, device: CudaDevice, stream: torch.cuda.Stream, side_stream: torch.cuda.Stream):
        self._device, self._stream, self._side_stream = device, stream, side_stream
        self._done: Optional[torch.cuda.Event] = None  # after this one's work; other work may follow
        side_stream.wait_stream(stream)

    def run(self, work):
        self._device._enter(self._side_stream)
        try:
            work()
            self._done = self._side_stream.record_event()
        finally:
            self._device._enter(self._stream)

    def join(self):
        if self._done is not None:
            self._stream.wait_event(self._done)


class GraphedWork(Repeated):
    """Work that runs as it is at first, while libraries allocate and tune, and is then captured once and replayed."""

    PLAIN_RUNS = 2

    def __init__(self, work: Callable[[], None], capture: Callable):
        """capture(work): records what `work` would enqueue, without running it; the result has replay()."""
        super().__init__(work)
        self._capture = capture
        self._runs, self._graph = 0, None

    def __call__(self):
        self._runs += 1
        if self._runs == self.PLAIN_RUNS + 1:
            try:
                self._graph = self._capture(self.work)
            except RuntimeError as error:
                print(f"a step cannot become a CUDA graph and is launched kernel by kernel: {error}", flush=True)
        if self._graph is None:
            self.work()
        else:
            self._graph.replay()
