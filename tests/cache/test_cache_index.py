"""The cache index against a dictionary with scores, through Python and in batches (so one call has duplicates)."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dglke_frugal._native import CacheIndex
from dglke_frugal.embedding.keys import SCORE_POLICIES

KEYS = 40
LOWER = 0xFFFFFFFF


class ScoredDictionary:
    """The contract in plain Python: {key: [slot, score, touched]} and the rules of csrc/cache/cache_index.h."""

    def __init__(self, index, policy):
        self.index, self.policy, self.rows, self.time, self.epoch = index, policy, {}, 0, 0

    def score(self, old, given):
        if self.policy == "lru":
            return self.time
        if self.policy == "epoch_lru":
            return self.epoch << 32 | self.time
        if self.policy == "lfu":
            return (old or 0) + given
        if self.policy == "epoch_lfu":
            return self.epoch << 32 | ((old or 0) & LOWER) + given
        return given

    def upsert(self, key, given):
        """Returns (found, evicted key or -1, evicted score, rejected)."""
        if key in self.rows:
            self.rows[key][1:] = self.score(self.rows[key][1], given), self.time
            return True, -1, 0, False
        first, last = self.index.slots_of_key(key)
        mates = {k: row for k, row in self.rows.items() if first <= row[0] < last}
        slot, evicted, evicted_score = None, -1, 0
        if len(mates) == last - first:
            free = {k: (row[1], row[2], row[0]) for k, row in mates.items() if row[2] != self.time}
            evicted = min(free, key=free.get, default=-1)
            if evicted < 0 or self.score(None, given) < free[evicted][0]:
                return False, -1, 0, True
            slot, evicted_score, _ = self.rows.pop(evicted)
        self.rows[key] = [slot, self.score(None, given), self.time]
        return False, evicted, evicted_score, False


calls = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "upsert", "assign", "erase", "step", "epoch"]),
        st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 3)), min_size=1, max_size=12),
    ),
    max_size=40,
)


@pytest.mark.parametrize("policy", SCORE_POLICIES)
@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, KEYS + 5), calls=calls)
def test_behaves_like_a_dictionary_with_scores(policy, capacity, calls):
    index = CacheIndex(capacity, policy)
    model = ScoredDictionary(index, policy)
    for name, pairs in calls:
        keys = np.array([k for k, _ in pairs], dtype=np.int64)
        scores_in = np.array([g for _, g in pairs], dtype=np.uint64)
        if name == "step":
            model.time += 1
            index.set_time(model.time)
        elif name == "epoch":
            model.epoch += 1
            index.set_epoch(model.epoch)
        elif name == "erase":
            assert index.erase(keys).tolist() == [model.rows.pop(int(k), None) is not None for k in keys]
        elif name == "assign":
            slots = index.assign(keys, scores_in)
            for (key, score), slot in zip(pairs, slots.tolist()):
                row = model.rows.get(key)
                assert slot == (row[0] if row else -1)
                if row:
                    row[1:] = model.score(row[1], score), model.time
        else:
            expected = []
            slots, found, evicted, evicted_scores = index.insert_and_evict(keys, scores_in)
            for (key, score), slot in zip(pairs, slots.tolist()):
                expected.append(model.upsert(key, score))
                if key in model.rows:
                    if model.rows[key][0] is None:
                        model.rows[key][0] = slot
                    assert slot == model.rows[key][0]
            assert [e[0] for e in expected] == found.astype(bool).tolist()
            assert [e[1] for e in expected] == evicted.tolist()
            assert [e[2] for e in expected] == evicted_scores.tolist()
            assert [e[3] for e in expected] == (slots == -1).tolist()
    assert len(index) == len(model.rows)
    every = np.arange(KEYS, dtype=np.int64)
    assert index.find(every).tolist() == [model.rows[k][0] if k in model.rows else -1 for k in range(KEYS)]

    copy = CacheIndex(capacity, policy)
    copy.restore(*index.export_batch(0, capacity))
    for ours, theirs in zip(index.export_batch(0, capacity), copy.export_batch(0, capacity)):
        np.testing.assert_array_equal(ours, theirs)


def test_export_batch_gives_the_slots_asked_for():
    index = CacheIndex(10, "lru")
    index.insert_and_evict(np.arange(10), np.ones(10, np.uint64))
    parts = [index.export_batch(first, 3)[1].tolist() for first in range(0, 12, 3)]
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert sum(parts, []) == list(range(10))


def test_restore_refuses_the_contents_of_another_cache():
    index, smaller = CacheIndex(300, "lru"), CacheIndex(200, "lru")
    index.insert_and_evict(np.arange(300), np.ones(300, np.uint64))
    with pytest.raises(ValueError, match="another cache"):
        smaller.restore(*index.export_batch(0, 300))
    assert len(smaller) == 0


def test_bad_keys_and_lengths_change_nothing():
    index = CacheIndex(4, "lru")
    ones = np.ones(2, np.uint64)
    with pytest.raises(IndexError):
        index.insert_and_evict(np.array([1, -1]), ones)
    with pytest.raises(ValueError, match="one value per key"):
        index.insert_and_evict(np.array([1]), ones)
    with pytest.raises(ValueError, match="score policy"):
        CacheIndex(4, "random")
    with pytest.raises(ValueError, match="at least one slot"):
        CacheIndex(0, "lru")
    assert len(index) == 0
