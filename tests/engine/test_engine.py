"""The engine through Python: a rank in numpy follows the plans, and the table equals a plain loop's to the bit."""
import os
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_memory import FOLDER, names_of

from dglke_frugal import _native
from dglke_frugal._native import EngineError
from dglke_frugal.store.cache_policy import make_policy
from dglke_frugal.store.rows.flush_config import FlushConfig
from dglke_frugal.store.device.plan_kernels import FROM_HOST, TO_CACHE, TO_GRADIENT, TO_VALUE

ENTRIES = 2
STRIDE = 32


class Engine(_native.Engine):
    """An engine for as long as a context lasts; an exception there stops all ranks."""

    def __init__(self, host_rows, dim, update, config, caches=()):
        super().__init__(host_rows, dim, 1, update, list(caches), config)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is not None:
            self.fail(f"A rank stopped: {error}")
        self.close()


def gradients(step, rank, entry, row, count, value):
    """(count, dim) float32 that differ by everything they may depend on."""
    position = np.arange(count)[:, None] * 7 + np.arange(len(value))[None, :] * 5
    noise = (step * 31 + rank * 17 + entry * 13 + row * 101 + position) % 97
    return np.ascontiguousarray((noise / 97 - 0.4 + 0.3 * value[None, :]).astype(np.float32))


def first_table(rows, dim):
    table = np.zeros((rows, STRIDE), np.float32)
    table[:, :dim] = (np.arange(rows)[:, None] * 7 + np.arange(dim)[None, :] * 3) % 11 / 11 - 0.5
    return table


def random_trace(seed, ranks, rows, steps, batch):
    """trace[step][rank] = (rows int64 ascending, occurrences int32 (ENTRIES, U))."""
    random = np.random.default_rng(seed)

    def work():
        size = random.integers(0, batch + 1)
        skewed = np.minimum(random.zipf(1.4, size) - 1, rows - 1)
        drawn = skewed if random.random() < 0.6 else random.integers(0, rows, size)
        entry = random.integers(0, ENTRIES, size)
        ids = np.unique(drawn).astype(np.int64)
        counts = np.zeros((ENTRIES, len(ids)), np.int32)
        np.add.at(counts, (entry, np.searchsorted(ids, drawn)), 1)
        return ids, counts

    return [[work() for _ in range(ranks)] for _ in range(steps)]


def oracle(trace, table, dim, update):
    """The table after every step, by a plain loop over the concatenated entries."""
    table = table.copy()
    for step, works in enumerate(trace):
        before = table.copy()
        for row in sorted({row for ids, _ in works for row in ids}):
            for entry in range(ENTRIES):
                parts = [
                    gradients(step, rank, entry, row, counts[entry][np.searchsorted(ids, row)], before[row, :dim])
                    for rank, (ids, counts) in enumerate(works)
                    if row in ids
                ]
                update.apply(table[row, : dim + 1], np.concatenate(parts))
        yield table


class NumpyRank:
    """Follows the plans of one rank; its cache is an array."""

    def __init__(self, client, table, dim, slots, update):
        self.client, self.table, self.dim, self.update = client, table, dim, update
        self.cache = np.zeros((slots, dim + 1), np.float32)
        self.staging = client.staging()

    def store(self, leave, target, record):
        if leave == TO_CACHE:
            self.cache[target] = record
        elif leave == TO_VALUE:
            self.staging[target : target + self.dim + 1] = record
        else:
            self.table[target, : self.dim + 1] = record

    def serve_write_backs(self, step):
        while True:
            _, slots, leaves, targets = self.client.write_backs(step)
            if not len(slots):
                return
            for slot, leave, target in zip(slots, leaves, targets):
                self.store(leave, target, self.cache[slot])
            self.client.publish_write_backs(len(slots))

    def step(self, step, occurrences):
        rows, sources, leaves, targets = self.client.plan(step)
        self.serve_write_backs(step)
        self.client.wait_gate(step)
        for i, (row, source, leave, target) in enumerate(zip(rows, sources, leaves, targets)):
            record = self.table[row, : self.dim + 1] if source == FROM_HOST else self.cache[source]
            record = record.copy()
            parts = [
                gradients(step, self.client.rank, entry, row, occurrences[entry, i], record[: self.dim])
                for entry in range(ENTRIES)
            ]
            if leave == TO_GRADIENT:
                for k, gradient in enumerate(np.concatenate(parts)):
                    self.staging[target + k * STRIDE :][: self.dim] = gradient
            else:
                for part in parts:
                    self.update.apply(record, part)
                self.store(leave, target, record)
        self.client.publish(step)

    def drain(self):
        for row, slot in zip(*self.client.drain()):
            self.table[row, : self.dim + 1] = self.cache[slot]
        self.client.finish_drain()


def train(engine, trace, table, dim, slots, update, lookahead, drain_after=()):
    """Runs all ranks in threads. Returns the drained table after each of `drain_after` and at the end."""
    tables, errors = [], []

    def rank_body(rank):
        try:
            client = engine.client(rank)
            me = NumpyRank(client, table, dim, slots, update)
            registered = 0
            for step in range(len(trace)):
                while registered < len(trace) and registered <= step + lookahead:
                    rows, occurrences = trace[registered][rank]
                    client.register_step(registered, rows, occurrences.ravel())
                    registered += 1
                me.step(step, trace[step][rank][1])
                if step in drain_after or step == len(trace) - 1:
                    me.drain()
                    if rank == 0:
                        tables.append(table[:, : dim + 1].copy())
                    me.drain()
        except Exception as error:
            errors.append(error)
            engine._native.fail(str(error))

    threads = [threading.Thread(target=rank_body, args=(rank,)) for rank in range(len(trace[0]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return tables


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    ranks=st.integers(1, 4),
    rows=st.sampled_from([3, 24, 150]),
    lookahead=st.sampled_from([1, 2, 5, 50]),
    flush_threads=st.sampled_from([1, 3, 16]),
    batch=st.sampled_from([1, 5, 25]),
    cached=st.sampled_from(["none", "one", "some", "all"]),
    mode=st.sampled_from(["p2f", "p2f", "p2f", "sync", "none"]),
    policy=st.sampled_from(["lfu", "static"]),
)
def test_table_equals_a_plain_loop_to_the_bit(
    seed, ranks, rows, lookahead, flush_threads, batch, cached, mode, policy
):
    dim, steps = 3, 25
    update = _native.RowAdagradUpdate(0.1)
    trace = random_trace(seed, ranks, rows, steps, batch)
    slots = {"none": 0, "one": 1, "some": 1 + rows // 3, "all": rows}[cached]
    if policy == "lfu":
        caches = [_native.cache_policy("lfu", rows, slots) for _ in range(ranks)] if slots else []
    else:
        hot = np.random.default_rng(seed).permutation(rows)[:slots].astype(np.int64)
        caches = [_native.StaticHotSet(hot) for _ in range(ranks)]
    config = FlushConfig(
        max_rows_per_step=batch,
        ranks=ranks,
        lookahead=lookahead,
        flush_threads=flush_threads,
        mode=mode,
        staging_bytes=4 * STRIDE * batch * 8,
    )
    table = first_table(rows, dim)
    expected = [t[:, : dim + 1].copy() for t in oracle(trace, table, dim, update)]
    with Engine(table, dim, update, config, caches) as engine:
        middle, final = train(engine, trace, table, dim, slots, update, lookahead, drain_after=(steps // 2,))
    np.testing.assert_array_equal(middle, expected[steps // 2])
    np.testing.assert_array_equal(final, expected[-1])


def small_engine(table, dim=3, **changes):
    config = dict(max_rows_per_step=4, flush_threads=1, lookahead=2)
    config.update(changes)
    return Engine(table, dim, _native.SgdUpdate(1.0), FlushConfig(**config))


def test_sgd_moves_rows_and_leaves_the_state():
    table = first_table(4, 3)
    table[:, 3] = 9
    before = table.copy()
    with small_engine(table) as engine:
        client = engine.client(0)
        client.register_step(0, np.array([2], np.int64), np.array([1, 1], np.int32))
        rank = NumpyRank(client, table, 3, 0, _native.SgdUpdate(1.0))
        rank.step(0, np.array([[1], [1]], np.int32))
        rank.drain()
    step = gradients(0, 0, 0, 2, 1, before[2, :3])[0], gradients(0, 0, 1, 2, 1, before[2, :3])[0]
    before[2, :3] = (before[2, :3] - step[0]) - step[1]
    np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize(
    "rows, occurrences, message",
    [
        ([1, 1], [1] * 4, "ascending"),
        ([2, 1], [1] * 4, "ascending"),
        ([-1], [1] * 2, "out of range"),
        ([4], [1] * 2, "out of range"),
        ([0, 1, 2, 3, 4], [1] * 10, "5 rows"),
        ([0, 1], [1] * 3, "occurrences"),
        ([0], [1, -1], "negative"),
    ],
)
def test_wrong_registrations_are_refused_with_a_sentence(rows, occurrences, message):
    with small_engine(first_table(4, 3) if len(rows) < 5 else first_table(9, 3), ranks=2) as engine:
        with pytest.raises(ValueError, match=message):
            engine.client(0).register_step(0, np.array(rows, np.int64), np.array(occurrences, np.int32))


def test_steps_out_of_order_or_beyond_the_lookahead_are_refused():
    with small_engine(first_table(4, 3)) as engine:
        client = engine.client(0)
        nothing = np.array([], np.int64), np.array([], np.int32)
        with pytest.raises(RuntimeError, match="step 0 comes next"):
            client.register_step(1, *nothing)
        for step in range(3):
            client.register_step(step, *nothing)
        with pytest.raises(RuntimeError, match="beyond the lookahead of 2"):
            client.register_step(3, *nothing)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(ranks=0), "one rank"),
        (dict(lookahead=0), "lookahead"),
        (dict(flush_threads=0), "flush thread"),
        (dict(mode="fast"), "no flush mode 'fast'"),
        (dict(max_rows_per_step=0), "max_rows_per_step"),
    ],
)
def test_wrong_configurations_are_refused_with_a_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        small_engine(first_table(4, 3), **change)


@pytest.mark.parametrize("policy", ["static", "lfu"])
@pytest.mark.parametrize("change", [
    dict(mode="direct"), dict(mode="direct", keeps_reused=True), dict(mode="direct", ranks=2),
    dict(mode="direct", ranks=2, same_steps=True), dict(mode="p2f", lookahead=20), dict(mode="sync", ranks=2),
    dict(mode="none"), dict(mode="direct", slots=0)])
@pytest.mark.parametrize("on_device", [False, True])
def test_the_memory_of_an_engine_is_known_before(policy, change, on_device):
    table = _native.HostTable(5000, 20)
    config = FlushConfig(max_rows_per_step=300, **{"slots": 700, "policy": policy, "flush_threads": 1, **change})
    count = 0 if config.slots == 0 or config.mode == "none" else 1 if config.same_steps else config.ranks
    caches = [make_policy(policy, config.slots, table.rows, np.arange(table.rows)) for _ in range(count)]
    engine = _native.Engine(table.records, table.dim, 1, _native.SgdUpdate(1.0), caches, config, on_device)
    known = _native.engine_bytes(config, table.rows, table.dim, 1, "fp32", on_device)
    taken = engine.statistics()["engine_bytes"]
    engine.close()
    if config.mode == "direct":  # else flush threads keep records, too
        assert known == taken
    else:
        assert 0.5 * taken < known <= taken


def test_an_exception_in_the_context_stops_the_other_ranks_with_its_message():
    table, seen, registered = first_table(4, 3), [], threading.Event()

    def waits(client):
        client.register_step(0, np.array([1], np.int64), np.array([1, 0], np.int32))
        registered.set()
        with pytest.raises(EngineError, match="out of coffee"):
            client.plan(0)
        seen.append(True)

    with pytest.raises(ValueError), small_engine(table, ranks=2) as engine:
        thread = threading.Thread(target=waits, args=(engine.client(0),))
        thread.start()
        registered.wait()
        raise ValueError("out of coffee")
    thread.join()
    assert seen == [True]


def test_a_rank_process_that_is_killed_stops_the_others_and_leaves_nothing_behind():
    child_code = (
        "import sys, time, numpy as np; from dglke_frugal import _native;"
        "client = _native.attach_rank(sys.argv[1], 1);"
        "client.register_step(0, np.array([1], np.int64), np.array([1, 0], np.int32));"
        "print('ready', flush=True); time.sleep(60)"
    )
    with small_engine(first_table(4, 3), ranks=2) as engine:
        client = engine.client(0)
        client.register_step(0, np.array([1], np.int64), np.array([1, 0], np.int32))
        child = subprocess.Popen([sys.executable, "-c", child_code, engine.segment_path], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        assert not names_of(child.pid)
        client.plan(0)
        client.wait_gate(0)
        client.publish(0)
        child.send_signal(signal.SIGKILL)
        with pytest.raises(EngineError, match=rf"Rank 1 \(process {child.pid}\) has ended"):
            client.drain()
        child.wait()
        child.stdout.close()


def test_a_name_in_shared_memory_is_seen_while_it_would_be_left():
    with tempfile.NamedTemporaryFile(dir=FOLDER, delete=False) as file:
        assert file.name in names_of(os.getpid())
        os.unlink(file.name)
        assert file.name not in names_of(os.getpid())


def test_a_killed_engine_process_stops_its_ranks():
    engine_code = (
        "import time, numpy as np; from dglke_frugal import _native;"
        "from dglke_frugal.store.rows.flush_config import FlushConfig;"
        "e = _native.Engine(np.zeros((4, 32), np.float32), 3, 1, _native.SgdUpdate(1.0), [],"
        "           FlushConfig(max_rows_per_step=4, ranks=2));"
        "print(e.segment_path, flush=True); time.sleep(60)"
    )
    host = subprocess.Popen([sys.executable, "-c", engine_code], stdout=subprocess.PIPE, text=True)
    client = _native.attach_rank(host.stdout.readline().strip(), 0)
    killer = threading.Timer(0.2, host.kill)
    killer.start()
    with pytest.raises(EngineError, match="process that runs the engine has ended"):
        client.plan(0)
    host.wait()
    host.stdout.close()
