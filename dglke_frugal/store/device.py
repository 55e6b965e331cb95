"""Where a step computes: memory, transfers and the order of work of one device. Importing this module imports torch.

Work is submitted and runs later, in the order of submission. Beside it, and beside each other because a bus carries
both ways at once, run arrivals and departures, each in an order of their own. The CPU is a device too: its memory is a
second buffer in host memory and its work runs at once, so that everything but the bus is the same code.
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
import time
from collections import deque
from typing import Callable, Deque, Optional, Sequence, Tuple

import numpy as np
import torch

from .. import _native
from ..errors import InputError, first_line
from .device_memory import CudaMemory
from .host_read import open_reader

EVENTS = 64  # events of a stream, used in turn
NOTHING = contextlib.nullcontext()
_current = threading.local()  # .stream: of the device whose stream is torch's current one in this thread


def no_op() -> None:
    """Work that is none."""


class Event:
    """A point in a device's order of work."""

    def wait(self) -> None:
        """Return when all work before the event is done. Raises what went wrong in it."""


class Branch:
    """Part of submitted work that waits for nothing of the rest; on the CPU it runs at once."""

    def run(self, work: Callable[[], None]) -> None:
        """Run `work`, which only enqueues, behind what has been run in this branch before."""
        work()

    def join(self) -> None:
        """What follows in the submitted work comes behind the branch."""


class Device:
    """The CPU as a device; CudaDevice overrides what differs.

    Attributes:
        torch_device: where its tensors lie.
        stream: what kernels take as their stream, in the work that is being enqueued.
        in_place: whether a table that lies in its memory as a whole is the host table itself.
        waited_seconds: how long the host has waited in `wait_for`.
    """

    torch_device = torch.device("cpu")
    in_place = False
    stream = 0
    waited_seconds = 0.0

    def submit(self, work: Callable[[], None], after: Optional[Event] = None) -> None:
        """Run `work`, which only enqueues, behind all work and arrivals before it, and `after`."""
        work()

    def arrive(self, work: Callable[[], None], after: Optional[Event] = None) -> Event:
        """Run `work`, which only enqueues copies and kernels that take `stream`, behind all arrivals before it and
        `after`.

        What is submitted later comes after it. Returns the point behind it.
        """
        work()
        return Event()

    def depart(self, work: Callable[[], None]) -> Event:
        """Run `work`, which only enqueues such as well, behind all departures and all work before it.

        Nothing comes after it but what waits for the event that is returned: the point behind everything so far.
        """
        work()
        return Event()

    def record(self) -> Event:
        """The point behind everything submitted so far, and so behind all arrivals."""
        return Event()

    def wait_for(self, event: Event) -> None:
        """Wait until the device has come as far as the event, because the host is ahead of it as far as it may be."""
        began = time.perf_counter()
        event.wait()
        self.waited_seconds += time.perf_counter() - began

    def branch(self) -> "Branch":
        """In submitted work: what is run in it comes behind all work so far, and beside what follows until it joins."""
        return Branch()

    def idle(self) -> bool:
        """Whether all submitted work is done; never waits. Raises what went wrong in it."""
        return True

    def check(self) -> None:
        """Raise what went wrong in submitted work, as far as it is known; never waits."""

    def synchronize(self) -> None:
        """Wait for all work, arrivals and departures."""
        self.depart(no_op).wait()

    def zeros(self, *shape: int, dtype=np.float32) -> torch.Tensor:
        """New device memory. Raises _native.DeviceError, with what would fit, if there is too little."""
        return torch.from_numpy(np.zeros(shape, dtype))

    def pinned(self, *shape: int, dtype=np.float32) -> torch.Tensor:
        """New host memory that the device copies from and to on its own."""
        return torch.from_numpy(np.zeros(shape, dtype))

    def upload(self, array: np.ndarray) -> torch.Tensor:
        """A copy of `array` in device memory; to be called in submitted work. The array may change afterwards."""
        return torch.from_numpy(array.copy())

    def share(self, array: np.ndarray) -> np.ndarray:
        """Host memory that kernels then read and write in place. Raises _native.DeviceError if the system refuses."""
        return array

    def host_read(self, table: _native.HostTable, max_rows: int, wanted: str) -> str:
        """"uva" or "copy": how rows of `table`, at most max_rows a step, come here if `wanted` is asked for.

        Raises InputError if "uva" is asked for and refused.
        """
        return "copy" if wanted == "copy" else "uva"

    def store(self, counter: np.ndarray, value: torch.Tensor) -> None:
        """In submitted work: counter (1,) uint64, in registered memory, = value once all work before it is visible.

        value: (1,) int64 in device memory, read when the work runs.
        """
        counter[0] = value.item()

    def storing(self, counter: np.ndarray, value: torch.Tensor) -> Callable[..., None]:
        """`store` of these two as it is called often: with a number that does not count, and a stream."""
        return lambda _, stream: self.store(counter, value)

    def copy(self, to: int, source: int, count: int) -> None:
        """In submitted work: copy `count` bytes between addresses of the device and of `pinned` or `share`d memory."""
        ctypes.memmove(to, source, count)

    def fetch(self, pieces: Sequence[Tuple[int, int, int]]) -> None:
        """`copy` of a few pieces (to, source, count) to the device, all multiples of 16."""
        for piece in pieces:
            self.copy(*piece)

    def current(self) -> contextlib.AbstractContextManager:
        """While torch has this device for its current one, as it must where kernels are prepared or launched."""
        return NOTHING

    def repeated(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` in a form that is cheap to run often. It must do the same on the same addresses each time."""
        return work


class HostDevice(Device):
    """The CPU where it does not stand for another device: it has no memory but the host's."""

    in_place = True


class _CudaEvent(Event):
    def __init__(self, stream: torch.cuda.Stream):
        self.event = _native.StreamEvent(stream.device.index)

    def wait(self):
        self.event.wait()


class Stream:
    """One order of work of a CUDA device, and points in it.

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
        """The point that was recorded last."""
        return self._events[0]

    def hold(self, event: Event) -> None:
        """What comes after this waits for the event."""
        event.event.hold(self.number)

    def record(self) -> Event:
        """The point behind all so far. One older than EVENTS others stands for a later one: what waits for it waits
        longer."""
        events = self._events
        events.rotate()
        events[0].event.record(self.number)
        return events[0]


class CudaDevice(Device):
    """One CUDA device and its streams: of submitted work, of arrivals and of departures."""

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
        self._stream = self._make_stream(torch.cuda.Stream(self.torch_device))
        self._arrivals, self._departures = (  # before what fills the device for long
            self._make_stream(torch.cuda.Stream(self.torch_device, priority=-1)) for _ in range(2))
        self._beside = torch.cuda.Stream(self.torch_device)  # of branches
        self.stream = self._stream.number
        self._memory = CudaMemory(self.torch_device)
        self._maps_host_memory = bool(devices[index]["reads_host_by_same_address"])
        self._graphs = graphs
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
            self._stream.hold(after)
        self._enter(self._stream.torch)
        work()

    def arrive(self, work, after=None):
        arrived = self._beside_work(self._arrivals, work, after)
        self._stream.hold(arrived)
        return arrived

    def depart(self, work):
        return self._beside_work(self._departures, work, self.record())

    def record(self):
        return self._stream.record()

    def _beside_work(self, stream: "Stream", work: Callable[[], None], after: Optional[Event]) -> Event:
        """On the stream of one way over the bus, which torch need not know of: such work takes it as a number."""
        if after is not None:
            stream.hold(after)
        self.stream = stream.number
        try:
            work()
        finally:
            self.stream = self._stream.number
        return stream.record()

    def branch(self):
        return _CudaBranch(self, self._stream.torch, self._beside)

    def idle(self):
        return self._stream.torch.query()

    def check(self):
        if self._capturing.acquire(blocking=False):
            try:
                self._stream.last.event.passed()
            finally:
                self._capturing.release()

    def zeros(self, *shape, dtype=np.float32):
        with torch.cuda.stream(self._stream.torch):
            memory = self._memory.zeros(shape, dtype)
        self._arrivals.hold(self._stream.record())  # or they would write before the zeros
        return memory

    def pinned(self, *shape, dtype=np.float32):
        return torch.from_numpy(self._memory.pinned(shape, dtype))

    def upload(self, array):
        return torch.from_numpy(array).pin_memory().to(self.torch_device, non_blocking=True)

    def share(self, array):
        return self._memory.share(array)

    def host_read(self, table, max_rows, wanted):
        if not self._maps_host_memory:
            if wanted == "uva":
                raise InputError("--host_read uva is not possible: the device does not address host memory as the host "
                                 "does; use --host_read copy")
            wanted = "copy"
        _, chosen = open_reader(table, max_rows, self._memory, wanted)  # registers the table for the device's lifetime
        print(chosen.reason, flush=True)
        return chosen.mode

    def store(self, counter, value):
        self.storing(counter, value)(1, self.stream)

    def storing(self, counter, value):
        return _native.prepare_publish(counter, value)

    def current(self):
        return NOTHING if torch.cuda.current_device() == self.torch_device.index else torch.cuda.device(
            self.torch_device)

    def copy(self, to, source, count):
        _native.enqueue_copy(to, source, count, self.stream)

    def fetch(self, pieces):
        if self._maps_host_memory:
            _native.fetch_pieces(pieces, self.stream)
        else:
            super().fetch(pieces)

    def repeated(self, work):
        return GraphedWork(work, self._capture) if self._graphs else work

    def _capture(self, work):
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self.torch_device)
        with self._capturing, _no_garbage_collection(), torch.cuda.graph(
                graph, pool=self._graph_memory, stream=stream, capture_error_mode="thread_local"):
            work()
        return graph


@contextlib.contextmanager
def _no_garbage_collection():
    """What an earlier device has left is not released meanwhile: CUDA would refuse, and its memory stay registered."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _CudaBranch(Branch):
    """On a stream that all have in common; where work is captured, a branch of its graph."""

    def __init__(self, device: CudaDevice, stream: torch.cuda.Stream, beside: torch.cuda.Stream):
        self._device, self._stream, self._beside = device, stream, beside
        self._done: Optional[torch.cuda.Event] = None  # behind what has run; other branches may follow there
        beside.wait_stream(stream)

    def run(self, work):
        self._device._enter(self._beside)
        try:
            work()
            self._done = self._beside.record_event()
        finally:
            self._device._enter(self._stream)

    def join(self):
        if self._done is not None:
            self._stream.wait_event(self._done)


class GraphedWork:
    """Work that runs as it is at first, while libraries settle, and is then captured once and replayed."""

    PLAIN_RUNS = 2

    def __init__(self, work: Callable[[], None], capture: Callable):
        """capture(work): records what `work` would enqueue, without running it; the result has replay()."""
        self._work, self._capture = work, capture
        self._runs, self._graph = 0, None

    def __call__(self):
        self._runs += 1
        if self._runs == self.PLAIN_RUNS + 1:
            try:
                self._graph = self._capture(self._work)
            except RuntimeError as error:
                print(f"a step cannot become a CUDA graph and is launched kernel by kernel: {error}", flush=True)
        if self._graph is None:
            self._work()
        else:
            self._graph.replay()


class Watch:
    """Asks a device from time to time whether it still works, while a rank may be waiting for what it will never do."""

    SECONDS = 0.5

    def __init__(self, device: Device, fail: Callable[[str], None]):
        """fail: called once, with a sentence, when submitted work has failed."""
        self._device, self._fail = device, fail
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-watch", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._closed.wait(self.SECONDS):
            try:
                self._device.check()
            except Exception as error:  # whatever it is, nobody else would hear of it
                self._fail(f"the device failed: {first_line(error)}")
                return

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()
