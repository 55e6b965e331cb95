"""Devices that tests run on: the CPU at once, the CPU behind a queue as a GPU's stream is, and (marked cuda) a GPU."""
import queue
import threading
import time

import pytest
import torch

from dglke_frugal.store.device import CudaDevice, Device, Mark


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


def make_device(name):
    return {"cpu": Device, "queued": QueuedDevice, "cuda": lambda: CudaDevice(0),
            "cuda-no-graphs": lambda: CudaDevice(0, graphs=False)}[name]()


def _one_thread(request):
    """torch computes with one thread: more only get in each other's way at these sizes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield make_device(request.param)
    torch.set_num_threads(threads)


CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
device = pytest.fixture(_one_thread, params=["cpu", CUDA], name="device")
queued_device = pytest.fixture(_one_thread, params=["cpu", "queued", CUDA], name="queued_device")
