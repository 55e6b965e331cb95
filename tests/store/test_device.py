"""What a device does with work: order, repetition, failure."""
import threading
import time

import numpy as np
import pytest
import torch
from devices import CUDA, STREAMS, QueuedDevice, device, make_device, queued_device  # noqa: F401

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.store.device.cuda_device import CudaDevice, GraphedWork
from dglke_frugal.store.device.device import Device, Event, Watch


class Recorder:
    """Stands for a stream that can capture: what runs is counted, what is captured runs when it is replayed."""

    def __init__(self, refuses=False):
        self.ran, self.captured, self.replayed, self._refuses, self._capturing = 0, 0, 0, refuses, False

    def work(self):
        if self._capturing:
            self.captured += 1
        else:
            self.ran += 1

    def capture(self, work):
        if self._refuses:
            raise RuntimeError("operation not permitted when stream is capturing")
        self._capturing = True
        work()
        self._capturing = False
        return self

    def replay(self):
        self.replayed += 1


def test_repeated_work_is_captured_once_and_never_lost():
    stream = Recorder()
    work = GraphedWork(stream.work, stream.capture)
    for calls in range(1, 7):
        work()
        assert stream.ran + stream.replayed == calls
    assert (stream.ran, stream.captured, stream.replayed) == (GraphedWork.PLAIN_RUNS, 1, 6 - GraphedWork.PLAIN_RUNS)


def test_work_that_cannot_be_captured_runs_as_it_is(capsys):
    stream = Recorder(refuses=True)
    work = GraphedWork(stream.work, stream.capture)
    for _ in range(6):
        work()
    assert (stream.ran, stream.replayed) == (6, 0)
    assert capsys.readouterr().out.count("cannot become a CUDA graph") == 1


def test_a_graph_gives_the_bits_of_single_launches(device):
    a, b = device.zeros(64, 64), device.zeros(64, 64)
    device.submit(lambda: a.copy_(torch.arange(4096).view(64, 64) % 7 - 3.0))

    def step():
        b.add_(torch.mm(a, a).mul_(0.125)).clamp_(-5, 5)
        a.copy_(b.t() * 0.5 + a)

    def run(work):
        device.submit(lambda: (a.copy_(start), b.zero_()))
        for _ in range(8):
            device.submit(work)
        device.synchronize()
        return a.cpu().numpy().tobytes()

    device.synchronize()
    start = a.clone()  # on another stream than the device's
    if a.is_cuda:
        torch.cuda.synchronize()
    assert run(device.repeated(step)) == run(step)


def test_work_runs_in_order_and_marks_wait(queued_device):
    values = queued_device.zeros(1)
    for factor in range(1, 30):
        queued_device.submit(lambda factor=factor: values.mul_(2).add_(factor))
    queued_device.record().wait()
    expected = 0.0
    for factor in range(1, 30):
        expected = np.float32(expected * 2 + factor)
    assert values.item() == expected


@pytest.mark.parametrize("kind", ["cpu", "queued", *STREAMS, CUDA])
def test_prefetched_memory_is_computed_with_and_written_back(kind):
    """With a buffer that is used again once what was in it has left, as a step's is."""
    device, count = make_device(kind), 30
    coming, gone = (device.pinned(count, dtype=np.float32) for _ in range(2))
    coming.copy_(torch.arange(count))
    prefetched, written_back = device.zeros(1), device.zeros(1)
    before, left = None, None
    for value in range(count):
        place = 4 * value
        device.prefetch(lambda place=place: device.copy(prefetched.data_ptr(), coming.data_ptr() + place, 4),
                        after=before)
        device.submit(lambda: written_back.copy_(prefetched * 2), after=left)
        before = device.record()
        left = device.write_back(lambda place=place: device.copy(gone.data_ptr() + place, written_back.data_ptr(), 4))
    device.synchronize()
    assert gone.tolist() == [2 * value for value in range(count)]


@pytest.mark.parametrize("kind", ["cpu", "queued", CUDA])
def test_pieces_of_host_memory_are_prefetched_together(kind):
    device = make_device(kind)
    coming, prefetched = device.pinned(1000, dtype=np.float32), device.zeros(1000)
    coming.copy_(torch.arange(1000) + 1)
    pieces = [(prefetched.data_ptr() + 4 * first, coming.data_ptr() + 4 * first, 4 * floats)
              for first, floats in ((0, 4), (8, 600), (800, 0), (900, 100))]
    device.prefetch(lambda: device.fetch(pieces))
    device.synchronize()
    expected = torch.zeros(1000)
    for first, floats in ((0, 4), (8, 600), (900, 100)):
        expected[first : first + floats] = coming[first : first + floats]
    assert torch.equal(prefetched.cpu(), expected)


def test_what_the_host_waits_for_its_device_is_counted(monkeypatch):
    device, clock = Device(), iter([1.0, 3.5, 10.0, 10.25])
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(clock))
        for _ in range(2):
            device.wait_for(Event())
    assert device.waited_seconds == 2.75 and Device.waited_seconds == 0


def test_pieces_that_are_no_whole_words_are_refused():
    with pytest.raises(ValueError, match="whole words of 16 bytes"):
        _native.fetch_pieces([(16, 24, 32)], 0)
    with pytest.raises(ValueError, match="too many pieces"):
        _native.fetch_pieces([(16, 16, 16)] * 9, 0)


@pytest.mark.cuda
def test_an_event_is_what_a_stream_and_the_host_wait_for():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    event, never = _native.StreamEvent(0), _native.StreamEvent(0)
    values = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(500_000_000)  # a quarter of a second
        values.fill_(3)
    event.record(first.cuda_stream)
    assert not event.passed() and never.passed()
    never.wait_in_stream(second.cuda_stream)
    never.wait()
    event.wait_in_stream(second.cuda_stream)
    with torch.cuda.stream(second):
        values.mul_(2)
    event.wait()
    assert event.passed()
    second.synchronize()
    assert values.item() == 6


def test_an_uploaded_array_may_change_afterwards(queued_device):
    array, found = np.arange(5), []
    queued_device.submit(lambda: found.append(queued_device.upload(array)))
    queued_device.synchronize()
    array[:] = 0
    assert found[0].tolist() == [0, 1, 2, 3, 4]


def test_a_watch_tells_of_a_failure(monkeypatch):
    monkeypatch.setattr(Watch, "SECONDS", 0.01)
    device, told, heard = QueuedDevice(), [], threading.Event()
    watch = Watch(device.check, lambda sentence: (told.append(sentence), heard.set()))
    assert not heard.wait(0.05)

    def fail():
        raise RuntimeError("the bus is gone")

    device.submit(fail)
    assert heard.wait(60) and "the bus is gone" in told[0]
    watch.close()


def test_a_gpu_that_is_not_there_is_a_sentence(monkeypatch):
    from dglke_frugal.store.device import cuda_device as module

    none = [], "there is no NVIDIA driver on this machine"
    monkeypatch.setattr(module._native, "cuda_devices", lambda with_free_memory: none)
    with pytest.raises(InputError, match="--gpu 1 needs a CUDA device, but there is no NVIDIA .* leave --gpu out"):
        CudaDevice(1)
    found = [{"reads_host_by_same_address": True}]
    monkeypatch.setattr(module._native, "cuda_devices", lambda with_free_memory: (found, ""))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="needs a PyTorch with CUDA"):
        CudaDevice(0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(InputError, match="--gpu 3 does not exist, this machine has 1"):
        CudaDevice(3)


def test_a_side_stream_comes_after_what_was_before_it_and_before_what_follows_its_end(device):
    rows = 1 << 22
    before, on_side, after = (device.zeros(rows) for _ in range(3))

    def work():
        for _ in range(8):  # long enough that a side stream that does not wait would be done first
            before.add_(1)
        side_stream = device.side_stream()
        side_stream.run(lambda: on_side.copy_(before))
        before.add_(0)  # at the same time as the side stream
        side_stream.run(lambda: on_side.mul_(2))
        for _ in range(8):
            side_stream.run(lambda: on_side.add_(1))
        side_stream.join()
        after.copy_(on_side)

    repeated = device.repeated(work)
    for run in range(1, 6):  # as it is, captured, and replayed
        device.submit(repeated)
        device.synchronize()
        assert (after == 16.0 * run + 8).all()


def test_work_after_a_side_stream_waits_for_it_and_for_no_later_one(device):
    rows = 1 << 22
    first, second, result = (device.zeros(rows) for _ in range(3))

    def work():
        early, late = device.side_stream(), device.side_stream()
        early.run(lambda: first.fill_(2))
        for _ in range(20):
            late.run(lambda: second.add_(1))
        device.side_stream().join()  # one without work
        early.join()
        result.copy_(first)
        late.join()
        result.add_(second)

    repeated = device.repeated(work)
    for run in range(1, 6):
        device.submit(repeated)
        device.synchronize()
        assert (result == 2.0 + 20 * run).all()


def test_a_gpu_registers_the_memory_of_each_table_once(monkeypatch):
    registered = []
    monkeypatch.setattr(_native, "HostRegistration", registered.append)
    device = CudaDevice.__new__(CudaDevice)  # without a GPU
    device._maps_host_memory, device._registrations, device._registered = True, [], set()
    tables = [_native.HostTable(3, 5), _native.HostTable(3, 5)]
    for table in (*tables, *tables):
        device.register(table)
    assert [each.ctypes.data for each in registered] == [table.records.ctypes.data for table in tables]
