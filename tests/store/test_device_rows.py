"""Rows behind a device's cache and the engine against rows updated in the table: no setting changes a bit."""
import itertools
import threading
import time

import numpy as np
import pytest
import torch
from devices import STREAMS, QueuedDevice, device, make_device, queued_device  # noqa: F401
from skewed_steps import skewed_step

from dglke_frugal.options import CACHE_POLICIES
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.device.device import no_op
from dglke_frugal.store.rows.device_rows import STEPS_ON_DEVICE, Plan
from dglke_frugal._native import DeviceError, EngineError
from dglke_frugal.errors import InputError
from dglke_frugal.store.device.plan_kernels import update_tables
from dglke_frugal.store.device.stalls import Stalls

ROWS, DIM, STEPS, LEARNING_RATE, MAX_ROWS, FIRST = 400, 20, 60, 0.1, 50, 7


def workload(step):
    return skewed_step(step, ROWS, DIM)


def rows_of(step):
    return np.unique(np.concatenate([ids for ids, _ in workload(step)]))


def expected_tables(steps):
    """Gradients are noise plus what was read, so that a stale read shows for ever."""
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE)
    store.init_uniform(0.5, 1, 0)
    for step in range(FIRST, FIRST + steps):
        entries = workload(step)
        gradients = [noise + store.gather(ids) for ids, noise in entries]
        store.apply([(ids, gradient) for (ids, _), gradient in zip(entries, gradients)])
    return np.array(store.embeddings), np.array(store.state)


class Stepper:
    """Runs the workload on the rows of a store, as a step does."""

    def __init__(self, store, device):
        self.rows, self.device = store.steps, device
        self.records = [  # longer than any plan
            device.zeros(MAX_ROWS + 3, self.rows.stride) for _ in range(STEPS_ON_DEVICE)]
        self.written_back = [None] * STEPS_ON_DEVICE  # events behind the last steps, which used these
        self.memories = [self.rows.plan_memory() for _ in range(STEPS_ON_DEVICE)] if self.rows.planned else []
        self.ids = []  # kept: transfers read them, behind torch's back

    def announce(self, step):
        self.rows.announce(step, rows_of(step))

    def run(self, step):
        self.rows.begin(step)
        known, records = rows_of(step), self.records[step % STEPS_ON_DEVICE]
        plan, fetch = self._plan(step, known, len(records))
        size = len(plan.rows)
        entries = []
        for ids, noise in workload(step):
            slots = np.searchsorted(known, ids)
            order = np.argsort(slots, kind="stable").astype(np.int32)
            offset = np.searchsorted(slots[order], np.arange(size + 1)).astype(np.int32)
            entries.append((noise, slots, offset, order))
        prefetch = self.rows.prefetch(plan, records)
        self.device.prefetch(lambda: (fetch(), prefetch()), after=self.written_back[step % STEPS_ON_DEVICE])
        self.rows.wait()
        self.device.submit(lambda: self._work(plan, records, entries))
        self._end(step, plan)

    def run_nothing(self, step):
        """A step that changes no row."""
        self.rows.begin(step)
        plan, fetch = self._plan(step, None, 0)
        self.device.prefetch(fetch, after=self.written_back[step % STEPS_ON_DEVICE])
        self.device.submit(lambda: self.rows.publish(plan))
        self._end(step, plan)

    def _end(self, step, plan):
        written_back = self.device.write_back(self.rows.write_back(plan))
        self.written_back[step % STEPS_ON_DEVICE] = written_back
        self.rows.leave(written_back)
        self.rows.end()

    def _plan(self, step, known, size):
        """The plan of a step on the device, of at most `size` rows, and work that brings it there."""
        if not self.rows.planned:
            ids = np.append(known, np.full(size - len(known), self.rows.scratch))
            self.ids.append(torch.from_numpy(ids).to(self.device.torch_device))
            if self.device.torch_device.type == "cuda":
                torch.cuda.synchronize()
            return Plan(self.ids[-1]), no_op
        memory, plan = self.memories[step % STEPS_ON_DEVICE]
        final = self.rows.final_plan()
        return plan.cut(size), lambda: self.device.copy(memory.data_ptr(), final.data_ptr(), memory.numel())

    def _work(self, plan, records, entries):
        put = self.device.upload
        self.rows.gather(plan, records)
        given = [(put(noise) + records[put(slots), :DIM], put(offset), put(order))
                 for noise, slots, offset, order in entries]
        update_tables([self.rows.update(plan, records, given)], LEARNING_RATE, self.device.stream)
        self.rows.publish(plan)


def train(store, device, steps, lookahead, drain_at=()):
    stepper, announced = Stepper(store, device), FIRST
    for step in range(FIRST, FIRST + steps):
        while announced < min(FIRST + steps, step + lookahead + 1):
            stepper.announce(announced)
            announced += 1
        stepper.run(step)
        if step - FIRST in drain_at:
            store.drain()
    store.drain()
    tables = np.array(store.embeddings), np.array(store.state)
    store.close()
    return tables


def make_store(device, **options):
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, hot_rows=[np.arange(ROWS)],
                           flushing=FlushConfig(MAX_ROWS, **{"keeps_reused": True, **options}), device=device)
    store.init_uniform(0.5, 1, 0)
    return store


@pytest.fixture(scope="module")
def expected():
    return expected_tables(STEPS)


@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_no_setting_changes_a_bit(expected, queued_device, policy):
    modes = itertools.cycle(("p2f", "direct", "sync"))
    for (slots, lookahead), mode in zip(itertools.product((0, 1, ROWS // 20, ROWS), (1, 10)), modes):
        store = make_store(queued_device, mode=mode, lookahead=lookahead, slots=slots, policy=policy)
        tables = train(store, queued_device, STEPS, lookahead, drain_at=(STEPS // 2,))
        for found, wanted in zip(tables, expected):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{slots} {lookahead} {mode}")


@pytest.mark.parametrize("seconds", [0, 3e-4])
@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_rows_that_are_written_back_during_the_next_steps(expected, policy, seconds):
    """Where write-backs are late, each step needs rows of steps before that are not on the host, and evicts others."""
    device = QueuedDevice(write_back_seconds=seconds)
    store = make_store(device, lookahead=4, slots=ROWS // 10, policy=policy, mode="direct")
    for found, wanted in zip(train(store, device, STEPS, 4, drain_at=range(STEPS // 3, STEPS, 7)), expected):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_streams_wait_for_each_other_where_they_must(expected, policy, kind):
    for slots, lookahead in ((0, 4), (ROWS // 40, 1), (ROWS // 10, 10), (ROWS, 4)):
        device = make_device(kind)
        store = make_store(device, lookahead=lookahead, slots=slots, policy=policy, mode="direct")
        for found, wanted in zip(train(store, device, STEPS, lookahead, drain_at=(STEPS // 3,)), expected):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{slots} {lookahead}")


@pytest.mark.parametrize("slots", [0, ROWS // 10])
def test_every_drain_finds_the_newest_values_on_the_host(queued_device, slots):
    """Also of rows that the next steps, which are planned already, read on the device."""
    expected = EmbeddingStore(ROWS, DIM, LEARNING_RATE)
    expected.init_uniform(0.5, 1, 0)
    store = make_store(queued_device, mode="direct", lookahead=4, slots=slots, policy="lfu")
    stepper = Stepper(store, queued_device)
    for step in range(FIRST, FIRST + 4):
        stepper.announce(step)
    for step in range(FIRST, FIRST + 25):
        stepper.run(step)
        stepper.announce(step + 4)
        gradients = [noise + expected.gather(ids) for ids, noise in workload(step)]
        expected.apply([(ids, gradient) for (ids, _), gradient in zip(workload(step), gradients)])
        if step % 3:
            store.drain()
            np.testing.assert_array_equal(store.embeddings, expected.embeddings, err_msg=f"step {step}")
    store.close()


def test_rows_that_are_used_again_stay_on_the_device(queued_device):
    """By a plain count over the workload: without a cache a row is written back unless one of the next three steps uses
    it."""
    used = [set(np.concatenate([ids for ids, _ in workload(step)]).tolist()) for step in range(FIRST, FIRST + STEPS)]
    again = sum(len(rows & set().union(*used[step + 1 : step + 4])) for step, rows in enumerate(used))
    counts = {}
    for keeps in (False, True):
        store = make_store(queued_device, mode="direct", lookahead=4, keeps_reused=keeps)
        statistics, close = store.statistics, store.close
        store.close = lambda: counts.update({keeps: statistics()["ranks"][0]}) or close()
        train(store, queued_device, STEPS, 4)
    every = sum(map(len, used))
    assert counts[False]["values_sent"] == every and counts[True]["values_sent"] == every - again
    assert 0 < again < every
    before = sum(len(rows & set().union(*used[max(0, step - 3) : step])) for step, rows in enumerate(used))
    found = counts[True]["buffer_reads"]  # also in slots that no row of a shorter step has taken since
    assert before <= found == counts[False]["buffer_reads"] < every


def test_a_table_that_lies_on_the_device(expected, queued_device):
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, device=queued_device)
    store.init_uniform(0.5, 1, 0)
    for found, wanted in zip(train(store, queued_device, STEPS, 3, drain_at=(0, 5, 6)), expected):
        np.testing.assert_array_equal(found, wanted)


def test_start_values_are_there_before_a_device_has_the_table():
    class Registering(QueuedDevice):
        def register(self, table):
            self.found = np.array(table.embeddings)

    queued = Registering()
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, flushing=FlushConfig(MAX_ROWS), device=queued,
                           start=lambda table: table.init_uniform(-0.5, 0.5, 1, 0))
    assert (queued.found != 0).any()
    np.testing.assert_array_equal(store.embeddings, queued.found)
    store.close()


@pytest.mark.parametrize("mode", ["p2f", "direct"])
def test_a_device_that_cannot_read_host_rows_is_refused_with_what_to_do(mode):
    class Refusing(QueuedDevice):
        def register(self, table):
            raise DeviceError("cudaHostRegister failed: out of memory")

    with pytest.raises(InputError, match="cannot read the table in host memory: cudaHostRegister failed: out of memory"
                       "; raise the limit of locked memory .ulimit -l.* or use --flush none"):
        make_store(Refusing(), mode=mode)


def test_a_drain_before_the_first_step_leaves_the_table_alone(device):
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, device=device)
    store.init_uniform(0.5, 1, 0)
    before = np.array(store.embeddings)
    store.drain()
    np.testing.assert_array_equal(store.embeddings, before)
    store.embeddings[:] = 3  # as a checkpoint that is loaded
    Stepper(store, device).rows.announce(0, np.arange(2))
    store.steps.begin(0)
    store.drain()
    assert (store.embeddings == 3).all()


def test_steps_that_begin_out_of_order_are_refused(device):
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, device=device)
    store.steps.announce(4, np.arange(3))
    with pytest.raises(ValueError, match="step 5 begins where step 4 was announced"):
        store.steps.begin(5)


def test_a_device_that_fails_stops_the_ranks():
    """Also one that waits at a gate for what the device will never do."""
    device = QueuedDevice()
    store = make_store(device, lookahead=2)
    stepper = Stepper(store, device)
    for step in range(FIRST, FIRST + 3):
        stepper.announce(step)
    stepper.run(FIRST)

    def fail():
        raise RuntimeError("the bus is gone")

    device.submit(fail)
    with pytest.raises((EngineError, RuntimeError), match="the device (has )?failed"):
        for step in range(FIRST + 1, FIRST + 3):
            stepper.run(step)
    store._ranked._engine.close()


def test_the_host_runs_ahead_of_the_device():
    """begin, submit and end of a step return while earlier steps have not run, where no row keeps them apart."""
    device = QueuedDevice()
    store = make_store(device, slots=ROWS, lookahead=3)
    stepper = Stepper(store, device)
    stepper.announce(FIRST)
    stepper.run(FIRST)  # all rows of both steps are cached after this
    store.drain()
    release = threading.Event()
    device.submit(release.wait)
    stepper.rows.announce(FIRST + 1, rows_of(FIRST))
    stepper.run_nothing(FIRST + 1)
    assert store.statistics()["ranks"][0]["cache_reads"] == len(rows_of(FIRST))
    release.set()
    store.drain()
    store.close()


@pytest.mark.parametrize("busy", [False, True])
def test_a_wait_is_a_stall_if_the_device_has_nothing_to_do(busy):
    device, release, waits, seconds = QueuedDevice(), threading.Event(), threading.Event(), 0.2

    class Watched(Stalls):
        def watch(self, wait, *given):
            return super().watch(lambda step: (waits.set(), wait(step))[1], *given)

    def announce_late():
        waits.wait()  # else a busy machine might come to the wait when the plan is there
        time.sleep(seconds)
        stepper.announce(FIRST + 1)

    store = make_store(device, mode="direct", lookahead=3)
    stepper = Stepper(store, device)
    stepper.announce(FIRST)
    stepper.run(FIRST)
    device.synchronize()
    store.steps.stalls = Watched()
    if busy:
        device.submit(release.wait)
    threading.Thread(target=announce_late).start()
    stepper.rows.begin(FIRST + 1)  # waits for the plan
    stalls = store.steps.stalls
    assert (stalls.steps, stalls.seconds) == (0, 0) if busy else stalls.steps == 1 and stalls.seconds > seconds / 2
    release.set()
    store.close()


def test_the_host_runs_ahead_where_values_are_stored_into_host_rows():
    device = QueuedDevice()
    store = make_store(device, mode="direct", lookahead=3)
    stepper = Stepper(store, device)
    release = threading.Event()
    device.submit(release.wait)
    for step in (FIRST, FIRST + 1):
        stepper.rows.announce(step, rows_of(FIRST))
        stepper.run_nothing(step)  # the second would read what the first has not stored yet
    assert store.statistics()["ranks"][0]["gate_stall_nanoseconds"] == 0
    release.set()
    store.drain()
    store.close()
