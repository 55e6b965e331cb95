"""No setting of cache and flushing changes a bit: rows behind any cache against rows updated in the table."""
import itertools

import numpy as np
import pytest
from skewed_steps import skewed_step
from threads import threads_as_before

from dglke_frugal import _native
from dglke_frugal.options import CACHE_POLICIES, ROW_DTYPES
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.cache_policy import make_policy
from dglke_frugal.store.rows.half_embeddings import Rounding

ROWS, DIM, STEPS, LEARNING_RATE = 500, 20, 40, 0.1
FIRST = 1000  # step, as in a resumed run


def train(store, lookahead):
    """The workload through `store.steps`; gradients depend on what was read, so that a stale read shows for ever."""
    steps = [skewed_step(step, ROWS, DIM) for step in range(STEPS)]
    announced = 0
    for step, entries in enumerate(steps):
        while announced < min(len(steps), step + lookahead + 1):
            rows = np.unique(np.concatenate([ids for ids, _ in steps[announced]]))
            store.steps.announce(FIRST + announced, rows)
            announced += 1
        store.steps.begin(FIRST + step)
        gradients = []
        for ids, noise in entries:
            values = np.empty((len(ids), DIM), np.float32)
            store.steps.gather(ids, values)
            gradients.append(noise + values)
        store.steps.copy_to_destination()
        for (ids, _), gradient in zip(entries, gradients):
            store.steps.apply_entry(ids, gradient, LEARNING_RATE)
        store.steps.end()
        if step == STEPS // 2:
            store.drain()  # as an evaluation does in the middle of a run
    store.drain()
    return np.array(store.embeddings[:]), np.array(store.state)


def make_store(dtype, **settings):
    rounding = Rounding(dtype, 9, 0) if dtype == "fp16" else None
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, rounding=rounding, **settings)
    store.init_uniform(0.5, 1, 0)
    return store


@pytest.fixture(scope="module")
def expected():
    return {dtype: train(make_store(dtype), 1) for dtype in ROW_DTYPES}


@pytest.mark.parametrize("dtype", ROW_DTYPES)
@pytest.mark.parametrize("policy", CACHE_POLICIES)
@pytest.mark.parametrize("slots", [0, 1, ROWS // 100, ROWS // 20, ROWS])
def test_no_setting_changes_a_bit(expected, policy, slots, dtype):
    for lookahead, threads, mode in itertools.product((1, 10, 200), (1, 4), ("p2f", "sync")):
        flushing = FlushConfig(60, mode=mode, lookahead=lookahead, flush_threads=threads, slots=slots, policy=policy)
        with threads_as_before():
            _native.set_num_threads(threads)
            store = make_store(dtype, hot_rows=[np.arange(ROWS)], flushing=flushing)
            found = train(store, lookahead)
            store.close()
        for one, other in zip(found, expected[dtype]):
            np.testing.assert_array_equal(one, other, err_msg=f"{lookahead} {threads} {mode}")


@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_the_cache_is_used(policy):
    config = FlushConfig(60, lookahead=10, slots=ROWS // 5, policy=policy)
    store = EmbeddingStore(ROWS, DIM, LEARNING_RATE, flushing=config, hot_rows=[np.arange(ROWS)])
    train(store, 10)
    rank = store.statistics()["ranks"][0]
    store.close()
    assert rank["cache_reads"] > 0.2 * (rank["cache_reads"] + rank["host_reads"])


def test_policies_by_name():
    assert {make_policy(name, 10, 100, np.arange(100)).slots for name in CACHE_POLICIES} == {10}
    with pytest.raises(ValueError, match="no cache policy"):
        make_policy("fifo", 10, 100)
    with pytest.raises(ValueError, match="which rows are hot"):
        make_policy("static", 10, 100)
