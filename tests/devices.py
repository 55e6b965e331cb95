"""Devices that tests run on: the CPU at once, the CPU behind a queue as a GPU's stream is, and (marked cuda) a GPU."""
import queue
import threading

import pytest
import torch

from dglke_frugal.store.device import CudaDevice, Device, Mark


class QueuedDevice(Device):
    """A CPU device whose work runs later, in a thread of its own, so that the host is ahead of it as with a GPU."""

    def __init__(self):
        self._queue = queue.Queue()
        self._error = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            work = self._queue.get()
            if self._error is None:  # as on a GPU, nothing runs any more after a failure
                try:
                    work()
                except Exception as error:
                    self._error = str(error)  # the error itself holds tables
            if isinstance(work, _Signal):
                work.event.set()
            work = None  # it holds tables

    def submit(self, work):
        self.check()
        self._queue.put(work)

    def mark(self):
        signal = _Signal()
        self._queue.put(signal)
        return _QueuedMark(self, signal.event)

    def check(self):
        if self._error is not None:
            raise RuntimeError(f"the device has failed: {self._error}")


class _Signal:
    def __init__(self):
        self.event = threading.Event()

    def __call__(self):
        pass


class _QueuedMark(Mark):
    def __init__(self, device, event):
        self._device, self._event = device, event

    def wait(self):
        self._event.wait()
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
