"""Devices that tests run on: the CPU at once, the CPU behind a queue as a GPU's stream is, and (marked cuda) a GPU."""
import queue
import threading
import time
from collections import deque

import numpy as np
import pytest
import torch

from dglke_frugal.store.device import MARKS, CudaDevice, Device, Mark


class QueuedDevice(Device):
    """A CPU device whose work runs later, in two threads of its own, so that the host is ahead of it as with a GPU."""

    def __init__(self, transfer_seconds=0.0):
        """transfer_seconds: how long each transfer takes longer, so that submitted work is ahead of those not
        awaited."""
        self._error = None
        self._delay = transfer_seconds
        self._submitted, self._transfers = (self._start() for _ in range(2))
        self._transferred = self._signal(self._transfers)

    def _start(self):
        works = queue.Queue()
        threading.Thread(target=self._run, args=(works,), daemon=True).start()
        return works

    def _run(self, works):
        while True:
            work = works.get()
            if self._error is None:  # as on a GPU, nothing runs any more after a failure
                try:
                    work()
                except Exception as error:
                    self._error = str(error)  # the error itself holds tables
            if isinstance(work, _Signal):
                work.event.set()
            work = None  # it holds tables

    @staticmethod
    def _signal(works):
        signal = _Signal()
        works.put(signal)
        return signal

    def submit(self, work):
        self.check()
        self._submitted.put(work)

    def transfer(self, work, after=None, awaited=True):
        self.check()
        if after is not None:
            self._transfers.put(after.signal.event.wait)
        if self._delay:
            self._transfers.put(lambda: time.sleep(self._delay))
        self._transfers.put(work)
        self._transferred = self._signal(self._transfers)
        if awaited:
            self._submitted.put(self._transferred.event.wait)

    def mark(self):
        self._submitted.put(self._transferred.event.wait)
        return _QueuedMark(self, self._signal(self._submitted))

    def check(self):
        if self._error is not None:
            raise RuntimeError(f"the device has failed: {self._error}")


class _Signal:
    def __init__(self):
        self.event = threading.Event()

    def __call__(self):
        pass


class _QueuedMark(Mark):
    def __init__(self, device, signal):
        self._device, self.signal = device, signal

    def wait(self):
        self.signal.event.wait()
        self._device.check()


class FailingDevice(QueuedDevice):
    """Fails when it publishes for the time number `at`: with one rank and the engine, once for each step."""

    def __init__(self, at):
        super().__init__()
        self._left = at

    def store(self, counter, value):
        self._left -= 1
        if not self._left:
            raise RuntimeError("the bus is gone")
        super().store(counter, value)


class StreamsDevice(CudaDevice):
    """A CUDA device's own order of work, by streams and events that the CPU plays.

    The stream `ahead` ("compute" or "bus") runs as far as its waits allow, the other one only what somebody waits for:
    where an event is missing, what is computed is wrong, every time. Without `ahead` all runs as late as it may. Not
    for rows that wait at a gate: flush threads would look in vain for what a stream has not run yet.
    """

    def __init__(self, ahead=None):
        self.torch_device = Device.torch_device
        self._stream, self._bus = _Stream(1), _Stream(2)
        self._ahead = {None: None, "compute": self._stream, "bus": self._bus}[ahead]
        self._transferred = _Event()
        self._marks = [_EventMark() for _ in range(MARKS)]
        self._turn, self._marked = 0, False

    def _enter(self, stream):
        self.stream, self._marked = stream.cuda_stream, False

    def submit(self, work):
        super().submit(lambda: self._stream.enqueue(work))
        self._run_ahead()

    def transfer(self, work, after=None, awaited=True):
        super().transfer(lambda: self._bus.enqueue(work), after, awaited)
        self._run_ahead()

    def _run_ahead(self):
        if self._ahead is not None:
            self._ahead.run()

    def zeros(self, *shape, dtype=np.float32):
        if not _Stream.running:
            self._bus.wait_stream(self._stream)
        return Device.zeros(self, *shape, dtype=dtype)

    check, pinned, upload, share = Device.check, Device.pinned, Device.upload, Device.share
    host_read, store, repeated = Device.host_read, Device.store, Device.repeated


class _Stream:
    """What CudaDevice needs of torch.cuda.Stream."""

    running = False  # whether any of them is

    def __init__(self, number):
        self.cuda_stream, self._works = number, deque()

    def enqueue(self, work):
        self._works.append(work)

    def wait_event(self, event):
        self.enqueue(event.point)  # the last record's, as CUDA has it

    def wait_stream(self, other):
        event = _Event()
        event.record(other)
        self.wait_event(event)

    def run(self, point=None):
        """Up to a point, or to the end; and of other streams what that waits for."""
        while self._works and not (point and point.passed):
            work = self._works.popleft()
            if not isinstance(work, _Point):
                _Stream.running = True
                work()
                _Stream.running = False
            elif work.stream is self:
                work.passed = True
            else:
                work.wait()


class _Point:
    """A place in a stream."""

    def __init__(self, stream):
        self.stream, self.passed = stream, stream is None

    def wait(self):
        if not self.passed:
            self.stream.run(self)
            assert self.passed


class _Event:
    """What CudaDevice needs of torch.cuda.Event."""

    def __init__(self):
        self.point = _Point(None)

    def record(self, stream):
        self.point = _Point(stream)
        stream.enqueue(self.point)


class _EventMark(Mark):
    def __init__(self):
        self.event = _Event()

    def wait(self):
        self.event.point.wait()


def make_device(name):
    return {"cpu": Device, "queued": QueuedDevice, "late": StreamsDevice,
            "compute ahead": lambda: StreamsDevice("compute"), "bus ahead": lambda: StreamsDevice("bus"),
            "cuda": lambda: CudaDevice(0), "cuda-no-graphs": lambda: CudaDevice(0, graphs=False)}[name]()


def _one_thread(request):
    """torch computes with one thread: more only get in each other's way at these sizes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield make_device(request.param)
    torch.set_num_threads(threads)


STREAMS = ["late", "compute ahead", "bus ahead"]
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
device = pytest.fixture(_one_thread, params=["cpu", CUDA], name="device")
queued_device = pytest.fixture(_one_thread, params=["cpu", "queued", CUDA], name="queued_device")
