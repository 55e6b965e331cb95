"""Devices that tests run on: the CPU at once, the CPU behind a queue as a GPU's stream is, and (marked cuda) a GPU."""
import contextlib
import itertools
import queue
import threading
import time
from collections import deque

import pytest
import torch
from threads import threads_as_before
from torch.utils._python_dispatch import TorchDispatchMode

from dglke_frugal.store.device.cuda_device import CudaDevice, Stream
from dglke_frugal.store.device.device import Device, Event, SideStream
from dglke_frugal.store.device_executor import CallersDevice


class _NoTorch(TorchDispatchMode):
    """Refuses torch's operations, but for reading a number."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # or torch imports its compiler in each process of a test, two seconds of a core

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        assert operation is torch.ops.aten._local_scalar_dense.default, (
            f"{operation} in a prefetch or a write-back, whose stream on a GPU is not torch's current one")
        return operation(*args, **(kwargs or {}))


def without_torch(work):
    """Work of a prefetch or a write-back, as CudaDevice takes it."""
    def checked():
        with _NoTorch():
            work()

    return checked


class PlainDevice(Device):
    """The CPU as a device."""

    def prefetch(self, work, after=None, event=None):
        return super().prefetch(without_torch(work), after, event)

    def write_back(self, work, after=None):
        return super().write_back(without_torch(work), after)


class QueuedDevice(Device):
    """A CPU device whose work runs later, in three threads, so that the host is ahead of it as with a GPU."""

    def __init__(self, write_back_seconds=0.0):
        """write_back_seconds: how much longer each write-back takes, so that later steps are ahead of it."""
        self._error = None
        self._delay = write_back_seconds
        self._submitted, self._prefetches, self._write_backs = (self._start() for _ in range(3))

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
            if isinstance(work, _QueuedEvent):
                work.passed.set()
            work = None  # it holds tables
            works.task_done()

    def _put(self, works, work, after):
        self.check()
        if after is not None:
            works.put(after.passed.wait)
        works.put(work)

    def _record(self, works):
        event = _QueuedEvent(self)
        works.put(event)
        return event

    def submit(self, work, after=None):
        self._put(self._submitted, work, after)

    def make_event(self):
        return _RepeatedEvent()

    def prefetch(self, work, after=None, event=None):
        self._put(self._prefetches, without_torch(work), after)
        prefetched = self._record(self._prefetches)
        if event is not None:
            event.last = prefetched
        else:
            self._submitted.put(prefetched.passed.wait)
        return prefetched

    def write_back(self, work, after=None):
        def late():
            time.sleep(self._delay)
            checked()

        checked = without_torch(work)
        self._put(self._write_backs, late if self._delay else checked, after or self.record())
        return self._record(self._write_backs)

    def repeat(self, repeated):
        self.submit(repeated.work, repeated.waits_for)
        if repeated.records is not None:
            repeated.records.last = self.record()

    def record(self):
        return self._record(self._submitted)

    def idle(self):
        return self._submitted.unfinished_tasks == 0

    def check(self):
        if self._error is not None:
            raise RuntimeError(f"the device has failed: {self._error}")


class _QueuedEvent(Event):
    """Work that does nothing, and stands for its place in a queue."""

    def __init__(self, device):
        self._device, self.passed = device, threading.Event()

    def __call__(self):
        pass

    def wait(self):
        self.passed.wait()
        self._device.check()


class _RepeatedEvent(Event):
    """An event that is recorded repeatedly."""

    last = Event()

    @property
    def passed(self):
        return self.last.passed

    def wait(self):
        self.last.wait()


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

    The streams `ahead` (of "compute", "prefetches" and "write-backs") run as far as their waits allow, the others only
    what somebody waits for: where an event is missing, what is computed is wrong, every time. Without `ahead` all runs
    as late as it may. Not for rows that wait at a gate: flush threads would look in vain for what a stream has not run
    yet.
    """

    def __init__(self, *ahead):
        self.torch_device = Device.torch_device
        self._stream, self._prefetches, self._write_backs = (self._make_stream(_Works(number)) for number in (1, 2, 3))
        named = {"compute": self._stream, "prefetches": self._prefetches, "write-backs": self._write_backs}
        self._ahead = [named[name].torch for name in ahead]

    def _make_stream(self, stream):
        return _Stream(stream)

    def _enter(self, stream):
        self.stream = stream.cuda_stream

    def _beside_work(self, stream, work, after, event=None):
        event = super()._beside_work(stream, lambda: stream.torch.enqueue(without_torch(work)), after, event)
        self._run_ahead()
        return event

    def repeat(self, repeated):
        if repeated.waits_for is not None:
            self._stream.wait(repeated.waits_for)
        self.submit(repeated.work)
        if repeated.records is not None:
            self._stream.record(repeated.records)
            self._run_ahead()

    def record(self):
        event = super().record()
        self._run_ahead()
        return event

    def _run_ahead(self):
        for stream in self._ahead:
            stream.run()

    def submit(self, work, after=None):
        super().submit(lambda: self._stream.torch.enqueue(work), after)
        self._run_ahead()

    def side_stream(self, fills_device=False):
        return _LateSideStream()

    idle, check = Device.idle, Device.check
    zeros, pinned, upload, share = Device.zeros, Device.pinned, Device.upload, Device.share
    register, store, repeated = Device.register, Device.store, Device.repeated
    storing, copy, fetch, current = Device.storing, Device.copy, Device.fetch, Device.current
    sorts, has_sorted = Device.sorts, Device.has_sorted


class CallersStreams(CallersDevice, StreamsDevice):
    """A caller's device whose streams the CPU plays, and the caller's stream too: `torch_calls` makes it the current
    one."""

    def __init__(self, *ahead):
        StreamsDevice.__init__(self, *ahead)
        self.callers, self._callers, self._shared = _Works(4), {}, []

    def ahead_of_all(self, stream):
        self._ahead.append(stream)

    @contextlib.contextmanager
    def torch_calls(self, monkeypatch):
        """torch.cuda as the device asks for it."""
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "current_stream", lambda _: self.callers)
            patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: self.callers.cuda_stream, raising=False)
            yield

    zeros, share, register = Device.zeros, Device.share, Device.register


class _LateSideStream(SideStream):
    """One that does nothing until it must, where that of a Device is as early as it can be."""

    def __init__(self):
        self._works = []

    def run(self, work):
        self._works.append(work)

    def join(self):
        for work in self._works:
            work()


class _Works(int):
    """A stream that is its own number: what CudaDevice needs of torch.cuda.Stream."""

    def __init__(self, _):
        self.cuda_stream, self._works = self, deque()

    def enqueue(self, work):
        self._works.append(work)

    def run(self, place=None):
        """Up to a place, or to the end; and of other streams what that waits for."""
        while self._works and not (place and place.passed):
            work = self._works.popleft()
            if not isinstance(work, _Place):
                work()
            elif work.stream is self:
                work.passed = True
            else:
                work.wait()


class _Place:
    """A place in a stream."""

    def __init__(self, stream):
        self.stream, self.passed = stream, stream is None

    def wait(self):
        if not self.passed:
            self.stream.run(self)
            assert self.passed


class _Recorded(Event):
    """A CudaDevice's event, and what that needs of _native.StreamEvent."""

    def __init__(self, _):
        self.event, self.place = self, _Place(None)

    def record(self, stream):
        self.place = _Place(stream)
        stream.enqueue(self.place)

    def wait_in_stream(self, stream):
        stream.enqueue(self.place)  # the last record's, as CUDA has it

    def wait(self):
        self.place.wait()


class _Stream(Stream):
    make_event = _Recorded


def run_step(step, number, batch, rows):
    """Step `number` of a DeviceStep, on the DeviceRows of its tables, which it announces itself."""
    for each, ids in zip(rows, (batch.entities, batch.relations, batch.relations)):
        each.announce(number, ids)
        each.begin(number)
    step.run_rows(batch, *rows)
    for each in rows:
        each.end()


def make_device(name):
    if name in STREAMS:
        return StreamsDevice(*STREAMS[name])
    return {"cpu": PlainDevice, "queued": QueuedDevice, "late write-backs": lambda: QueuedDevice(0.002),
            "cuda": lambda: CudaDevice(0), "cuda-no-graphs": lambda: CudaDevice(0, graphs=False)}[name]()


def _one_thread(request):
    """torch computes with one thread: more only get in each other's way at these sizes."""
    with threads_as_before():
        torch.set_num_threads(1)
        yield make_device(request.param)


STREAMS = {" and ".join(ahead) + " ahead" if ahead else "late": ahead for count in range(3)
           for ahead in itertools.combinations(("compute", "prefetches", "write-backs"), count)}
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
device = pytest.fixture(_one_thread, params=["cpu", CUDA], name="device")
queued_device = pytest.fixture(_one_thread, params=["cpu", "queued", CUDA], name="queued_device")
