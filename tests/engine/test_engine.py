"""The engine through Python: what it refuses, the memory it takes, and who hears when a rank ends."""
import os
import tempfile
import threading

import numpy as np
import pytest
from shared_memory import FOLDER, names_of

from dglke_frugal import _native
from dglke_frugal._native import EngineError
from dglke_frugal.store.cache_policy import make_policy
from dglke_frugal.store.rows.flush_config import FlushConfig


class Engine(_native.Engine):
    """A small engine for as long as a context lasts; an exception there stops all ranks."""

    def __init__(self, rows=4, **changes):
        config = FlushConfig(**{"max_rows_per_step": 4, "flush_threads": 1, "lookahead": 2, **changes})
        super().__init__(np.zeros((rows, 32), np.float32), 3, 1, _native.RowAdagradUpdate(1.0), [], config)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is not None:
            self.fail(f"A rank stopped: {error}")
        self.close()


@pytest.mark.parametrize("rows, occurrences, message", [
    ([1, 1], [1] * 4, "ascending"),
    ([2, 1], [1] * 4, "ascending"),
    ([-1], [1] * 2, "out of range"),
    ([4], [1] * 2, "out of range"),
    ([0, 1, 2, 3, 4], [1] * 10, "5 rows"),
    ([0, 1], [1] * 3, "occurrences"),
    ([0], [1, -1], "negative")])
def test_wrong_registrations_are_refused_with_a_sentence(rows, occurrences, message):
    with Engine(9 if len(rows) == 5 else 4, ranks=2) as engine:
        with pytest.raises(ValueError, match=message):
            engine.client(0).register_step(0, np.array(rows, np.int64), np.array(occurrences, np.int32))


def test_steps_out_of_order_or_beyond_the_lookahead_are_refused():
    with Engine() as engine:
        client = engine.client(0)
        nothing = np.array([], np.int64), np.array([], np.int32)
        with pytest.raises(RuntimeError, match="step 0 comes next"):
            client.register_step(1, *nothing)
        for step in range(3):
            client.register_step(step, *nothing)
        with pytest.raises(RuntimeError, match="beyond the lookahead of 2"):
            client.register_step(3, *nothing)


@pytest.mark.parametrize("change, message", [
    (dict(ranks=0), "one rank"),
    (dict(lookahead=0), "lookahead"),
    (dict(flush_threads=0), "flush thread"),
    (dict(mode="fast"), "no flush mode 'fast'"),
    (dict(max_rows_per_step=0), "max_rows_per_step")])
def test_wrong_configurations_are_refused_with_a_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        Engine(**change)


@pytest.mark.parametrize("policy", ["static", "lfu"])
@pytest.mark.parametrize("change", [
    dict(mode="direct"), dict(mode="direct", keeps_reused=True), dict(mode="direct", ranks=2),
    dict(mode="direct", ranks=2, same_steps=True), dict(mode="p2f", lookahead=20), dict(mode="sync", ranks=2),
    dict(mode="direct", slots=0)])
@pytest.mark.parametrize("on_device", [False, True])
def test_the_memory_of_an_engine_is_known_before(policy, change, on_device):
    table = _native.HostTable(5000, 20)
    config = FlushConfig(max_rows_per_step=300, **{"slots": 700, "policy": policy, "flush_threads": 1, **change})
    count = 0 if config.slots == 0 else 1 if config.same_steps else config.ranks
    caches = [make_policy(policy, config.slots, table.rows, np.arange(table.rows)) for _ in range(count)]
    engine = _native.Engine(table.records, table.dim, 1, _native.RowAdagradUpdate(1.0), caches, config, on_device)
    known = _native.engine_bytes(config, table.rows, table.dim, 1, "fp32", on_device)
    taken = engine.statistics()["engine_bytes"]
    engine.close()
    if config.mode == "direct":  # else flush threads keep records, too
        assert known == taken
    else:
        assert 0.5 * taken < known <= taken


def test_an_exception_in_the_context_stops_the_other_ranks_with_its_message():
    seen, registered = [], threading.Event()

    def waits(client):
        client.register_step(0, np.array([1], np.int64), np.array([1, 0], np.int32))
        registered.set()
        with pytest.raises(EngineError, match="out of coffee"):
            client.begin(0)
        seen.append(True)

    with pytest.raises(ValueError), Engine(ranks=2) as engine:
        thread = threading.Thread(target=waits, args=(engine.client(0),))
        thread.start()
        registered.wait()
        raise ValueError("out of coffee")
    thread.join()
    assert seen == [True]


def test_a_name_in_shared_memory_is_seen_while_it_would_be_left():
    with tempfile.NamedTemporaryFile(dir=FOLDER, delete=False) as file:
        assert file.name in names_of(os.getpid())
        os.unlink(file.name)
        assert file.name not in names_of(os.getpid())
