"""The cache index against a dictionary with scores, through Python and in batches (so one call has duplicates)."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dglke_frugal.errors import InputError
from dglke_frugal.store.cache_index import SCORE_POLICIES, load_index, make_index, save_index

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


@pytest.mark.parametrize("dense", [True, False], ids=["direct", "digest"])
@pytest.mark.parametrize("policy", SCORE_POLICIES)
@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, KEYS + 5), calls=calls)
def test_behaves_like_a_dictionary_with_scores(dense, policy, capacity, calls, tmp_path_factory):
    index = make_index(capacity, policy, KEYS if dense else None)
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

    file = tmp_path_factory.mktemp("cache") / "index.npz"
    save_index(index, file)
    copy = make_index(capacity, policy, KEYS if dense else None)
    load_index(copy, file)
    assert (copy.time, copy.epoch) == (model.time, model.epoch)
    for ours, theirs in zip(index.export_batch(0, capacity), copy.export_batch(0, capacity)):
        np.testing.assert_array_equal(ours, theirs)


def test_export_batch_gives_the_slots_asked_for():
    index = make_index(10, "lru", 10)
    index.insert_and_evict(np.arange(10), np.ones(10, np.uint64))
    parts = [index.export_batch(first, 3)[1].tolist() for first in range(0, 12, 3)]
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert sum(parts, []) == list(range(10))


def test_load_refuses_what_is_not_its_own(tmp_path):
    index = make_index(4, "lru", 10)
    index.insert_and_evict(np.array([7]), np.ones(1, np.uint64))
    save_index(index, tmp_path / "index.npz")
    with pytest.raises(InputError, match="4 slots, not 5"):
        load_index(make_index(5, "lru", 10), tmp_path / "index.npz")
    with pytest.raises(InputError, match="does not fit"):
        load_index(make_index(4, "lru", 5), tmp_path / "index.npz")
    (tmp_path / "noise.npz").write_bytes(b"noise")
    with pytest.raises(InputError, match="cannot read"):
        load_index(index, tmp_path / "noise.npz")
    with pytest.raises(InputError, match="cannot read"):
        load_index(index, tmp_path / "missing.npz")


@pytest.mark.parametrize("dense", [True, False])
def test_bad_keys_and_lengths_change_nothing(dense):
    index = make_index(4, "lru", 10 if dense else None)
    ones = np.ones(2, np.uint64)
    with pytest.raises(IndexError):
        index.insert_and_evict(np.array([1, -1]), ones)
    with pytest.raises(ValueError, match="one value per key"):
        index.insert_and_evict(np.array([1]), ones)
    with pytest.raises(ValueError, match="score policy"):
        make_index(4, "random", 10)
    with pytest.raises(ValueError, match="at least one slot"):
        make_index(0, "lru", 10)
    assert len(index) == 0
