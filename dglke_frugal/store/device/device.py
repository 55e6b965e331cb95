"""Where a step computes: memory, transfers and the order of work of one device. Importing this module imports torch.

Work is submitted and runs later, in the order of submission. Prefetches and write-backs run at the same time, each
kind in an order of its own, because the bus transfers both ways at once. The CPU is a device too: its memory is a
second buffer in host memory and its work runs at once, so that everything but the bus is the same code. GPUs are
in cuda_device.py.
"""
from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from typing import Callable, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from ... import _native
from ...errors import first_line

NOTHING = contextlib.nullcontext()
CACHE_LINE = 64  # bytes


def no_op() -> None:
    """Work that is none."""


class Event:
    """A position in a device's order of work."""

    def wait(self) -> None:
        """Return when all work before the event is done. Raises what went wrong in it."""


class Repeated:
    """Work for Device.repeat.

    Attributes:
        work: to be run.
        waits_for, records: the event that the work waits for, and the event that it records when it is done; or None.
    """

    def __init__(self, work: Callable[[], None], waits_for: Optional[Event] = None, records: Optional[Event] = None):
        self.work, self.waits_for, self.records = work, waits_for, records

    def __call__(self) -> None:
        self.work()


class SideStream:
    """A stream for a part of submitted work that the rest need not wait for; on the CPU that part runs at once."""

    def run(self, work: Callable[[], None]) -> None:
        """Run `work`, which only enqueues, after what has been run on this side stream before."""
        work()

    def join(self) -> None:
        """Submitted work that follows waits for the side stream."""


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
        """Run `work`, which only enqueues, after all work and prefetches before it, and after `after`."""
        work()

    def make_event(self) -> Event:
        """An event that prefetches and repeated work record repeatedly. A wait refers to the latest record at the time
        of the call."""
        return Event()

    def prefetch(self, work: Callable[[], None], after: Optional[Event] = None, event: Optional[Event] = None) -> Event:
        """Run `work`, which only enqueues copies and kernels that take `stream`, after all prefetches before
        it and after `after`.

        Work that is submitted later waits for the prefetch; with an event of make_event only work that waits for that
        event does. Returns the event that the prefetch records.
        """
        work()
        return Event()

    def write_back(self, work: Callable[[], None], after: Optional[Event] = None) -> Event:
        """Run `work`, which only enqueues copies and kernels, after all write-backs before it and after all work before
        it or, if that is given, after `after`.

        Only work that waits for the returned event, which the write-back records, runs after it.
        """
        work()
        return Event()

    def record(self) -> Event:
        """An event after everything submitted so far, and so after all prefetches."""
        return Event()

    def wait_for(self, event: Event) -> None:
        """Wait until the device has come as far as the event, because the host is ahead of it as far as it may be."""
        began = time.perf_counter()
        event.wait()
        self.waited_seconds += time.perf_counter() - began

    def side_stream(self, fills_device: bool = False) -> "SideStream":
        """In submitted work: a stream whose work runs after all work so far, and at the same time as the work that
        follows until it joins, which has priority if the side stream fills the device."""
        return SideStream()

    def idle(self) -> bool:
        """Whether all submitted work is done; never waits. Raises what went wrong in it."""
        return True

    def check(self) -> None:
        """Raise what went wrong in submitted work, as far as it is known; never waits."""

    def synchronize(self) -> None:
        """Wait for all work, prefetches and write-backs."""
        self.write_back(no_op).wait()

    def zeros(self, *shape: int, dtype=np.float32) -> torch.Tensor:
        """New device memory. Raises _native.DeviceError, with what would fit, if there is too little."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = np.zeros(size + CACHE_LINE, np.uint8)
        first = -memory.ctypes.data % CACHE_LINE  # a vector across two lines is read and written as two
        return torch.from_numpy(memory[first : first + size].view(dtype).reshape(shape))

    def pinned(self, *shape: int, dtype=np.float32) -> torch.Tensor:
        """New host memory that the device copies from and to on its own."""
        return torch.from_numpy(np.zeros(shape, dtype))

    def upload(self, array: np.ndarray) -> torch.Tensor:
        """A copy of `array` in device memory; to be called in submitted work. The array may change afterwards."""
        return torch.from_numpy(array.copy())

    def share(self, array: np.ndarray) -> np.ndarray:
        """Host memory that kernels then read and write in place. Raises _native.DeviceError if the system refuses."""
        return array

    def register(self, table: _native.HostTable) -> None:
        """`share` the rows of a table, once for as long as there is the device. Raises _native.DeviceError."""

    def store(self, counter: np.ndarray, value: torch.Tensor) -> None:
        """In submitted work: counter (1,) uint64, in registered memory, = value once all work before it is visible.

        value: (1,) int64 in device memory, read when the work runs.
        """
        counter[0] = value.item()

    def storing(self, counter: np.ndarray, value: torch.Tensor) -> Callable[..., None]:
        """A `store` of these arguments that is called often: with a number that does not count, and a stream."""
        return lambda _, stream: self.store(counter, value)

    def copy(self, to: int, source: int, count: int) -> None:
        """In submitted work: copy `count` bytes between addresses of the device and of `pinned` or `share`d memory."""
        ctypes.memmove(to, source, count)

    def fetch(self, pieces: Sequence[Tuple[int, int, int]]) -> None:
        """`copy` of a few pieces (to, source, count) to the device, all multiples of 16."""
        for piece in pieces:
            self.copy(*piece)

    def sorts(self, count: int) -> bool:
        """Whether the device is to sort out the ids of a lookup that has so many."""
        return False

    def sort(self, ids: np.ndarray, rows: int, owners: int) -> _native.DeviceLookup:
        """Begin to sort out ids (n,) int64, which stay as they are until `take` of the lookup has returned. Where they
        lie in `pinned` memory this does not wait. Raises _native.DeviceError."""
        raise NotImplementedError

    def has_sorted(self, lookup: Union[_native.Lookup, _native.DeviceLookup]) -> bool:
        """Whether the lookup is one of `sort`."""
        return False

    def give_back(self, lookup: _native.DeviceLookup, after: Event) -> None:
        """Behind the event nobody uses this lookup of `sort` any more; its memory may be used again."""

    def current(self) -> contextlib.AbstractContextManager:
        """While torch has this device for its current one, as it must where kernels are prepared or launched."""
        return NOTHING

    def repeated(self, work: Callable[[], None], waits_for: Optional[Event] = None,
                 records: Optional[Event] = None) -> Repeated:
        """`work` in a form that is cheap to run often, by `repeat`. It must do the same on the same addresses each
        time.
        waits_for, records: see Repeated."""
        return Repeated(work, waits_for, records)

    def repeat(self, repeated: Repeated) -> None:
        """Submit it."""
        self.submit(repeated.work)


class HostDevice(Device):
    """The CPU where it does not stand for another device: it has no memory but the host's."""

    in_place = True


class Watch:
    """Asks from time to time whether a device still works, or ranks do, while others may be waiting for what they will
    never do."""

    SECONDS = 0.5

    def __init__(self, check: Callable[[], None], fail: Callable[[str], None]):
        """check: raises what went wrong, such as Device.check. fail: called once, with a sentence, when it has."""
        self._check, self._fail = check, fail
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-watch", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._closed.wait(self.SECONDS):
            try:
                self._check()
            except Exception as error:  # whatever it is, nobody else would hear of it
                self._fail(f"the device failed: {first_line(error)}")
                return

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()
