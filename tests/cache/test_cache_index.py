"""The cache index through Python. csrc/tests/cache compares it with a dictionary with scores, call by call."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dglke_frugal._native import CacheIndex
from dglke_frugal.embedding.keys import SCORE_POLICIES

KEYS = 40
calls = st.lists(
    st.tuples(st.sampled_from(["insert_and_evict", "insert_and_evict", "assign", "find", "erase", "time", "epoch"]),
              st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 3)), min_size=1, max_size=12)),
    max_size=40)


@pytest.mark.parametrize("policy", SCORE_POLICIES)
@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, KEYS + 5), calls=calls)
def test_a_call_for_many_keys_is_as_many_calls(policy, capacity, calls):
    together, one_by_one = CacheIndex(capacity, policy), CacheIndex(capacity, policy)
    for number, (name, pairs) in enumerate(calls):
        keys = np.array([key for key, _ in pairs], np.int64)
        arrays = [keys] if name in ("find", "erase") else [keys, np.array([value for _, value in pairs], np.uint64)]
        if name in ("time", "epoch"):
            for index in (together, one_by_one):
                getattr(index, f"set_{name}")(number)
            continue
        found = getattr(together, name)(*arrays)
        each = [getattr(one_by_one, name)(*(array[i : i + 1] for array in arrays)) for i in range(len(keys))]
        if name == "insert_and_evict":
            for many, single in zip(found, zip(*each)):
                assert many.tolist() == np.concatenate(single).tolist()
        else:
            assert found.tolist() == np.concatenate(each).tolist()
    copy = CacheIndex(capacity, policy)
    copy.restore(*together.entries())
    for index in (one_by_one, copy):
        assert len(index) == len(together)
        for ours, theirs in zip(together.entries(), index.entries()):
            np.testing.assert_array_equal(ours, theirs)


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
