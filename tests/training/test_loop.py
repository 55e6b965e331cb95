"""Where the seconds of a training loop go."""

import contextlib
import gc
from types import SimpleNamespace

import pytest

from dglke_frugal.store.device.stalls import Stalls
from dglke_frugal.training.run import loop as loop_module
from dglke_frugal.training.run.loop import TrainingLoop

STEPS = 3


class Clock:
    """Every piece of work takes a second of it."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def work(self, *_):
        self.now += 1


class Rows:
    def __init__(self, clock):
        self.announce = self.begin = clock.work
        self.end = lambda: None


class Batch:
    def __len__(self):
        return 1


class Sampler:
    made_ahead = False

    def __init__(self, clock):
        self._clock = clock

    @contextlib.contextmanager
    def batches(self, first):
        def endless():
            while True:
                self._clock.work()
                yield Batch()

        yield endless()


@pytest.fixture
def seconds(monkeypatch):
    """Runs a loop with the given steps of a store; returns where its seconds went."""

    def run(stalls):
        clock = Clock()
        monkeypatch.setattr(loop_module, "time", clock)
        tables = Rows(clock)
        tables.stores = {"entity": SimpleNamespace(steps=None, stalls=stalls)}
        loop = TrainingLoop(tables, Sampler(clock), SimpleNamespace(run_rows=clock.work), 0, STEPS, lookahead=1)
        list(loop)
        return loop.seconds

    return run


def test_a_loop_without_a_device_waits_where_rows_begin(seconds):
    assert seconds(None) == {"sample": STEPS, "gate": STEPS, "step": 2 * STEPS}


def test_a_device_may_work_while_the_host_waits(seconds):
    """What the host waits for when it announces and begins is the device, but for what its rows know of."""
    assert seconds(Stalls()) == {"sample": STEPS, "gate": 0, "step": 3 * STEPS}


@pytest.mark.parametrize("by_the_caller", [False, True])
def test_what_was_there_before_is_not_searched_for_garbage_meanwhile(by_the_caller):
    clock, frozen = Clock(), []
    tables = Rows(clock)
    tables.stores = {"entity": SimpleNamespace(steps=None, stalls=None)}
    step = SimpleNamespace(run_rows=lambda *_: frozen.append(gc.get_freeze_count()))
    if by_the_caller:
        gc.freeze()
    before = gc.get_freeze_count()
    loop = iter(TrainingLoop(tables, Sampler(clock), step, 0, STEPS, lookahead=1))
    next(loop)
    loop.close()  # before its end
    assert frozen[0] > 1000
    assert gc.get_freeze_count() == pytest.approx(before, rel=0.01) and (before > 1000) == by_the_caller
    gc.unfreeze()
