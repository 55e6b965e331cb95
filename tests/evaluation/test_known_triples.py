"""Known answers against looking at every triple."""

from collections import defaultdict

import numpy as np
import pytest

from dglke_frugal.evaluation import known_triples
from dglke_frugal.evaluation.known_triples import KnownTriples


@pytest.mark.parametrize("entities, relations, count", [(3, 1, 5), (40, 3, 2000), (30_000, 20, 40_000)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_answers(monkeypatch, entities, relations, count, dtype):
    monkeypatch.setattr(known_triples, "_BLOCK", 7000)
    rng = np.random.default_rng(entities)
    sizes = (entities, relations, entities)
    parts = [tuple(rng.integers(0, size, rows).astype(dtype) for size in sizes) for rows in (count, count // 5, 0)]
    tails, heads = defaultdict(set), defaultdict(set)
    for part in parts:
        for head, relation, tail in zip(*(column.tolist() for column in part)):
            tails[head, relation].add(tail)
            heads[tail, relation].add(head)
    known = KnownTriples(parts)
    for side, fixed, expected in ((known.tails, 0, tails), (known.heads, 2, heads)):
        # Triples that are there, some of them twice, and some that are not; the last relation is in no query.
        asked = [
            np.concatenate([parts[0][i][::3], parts[0][i][:9], rng.integers(0, sizes[i], 500)]) for i in (fixed, 1)]
        if relations > 1:
            keep = asked[1] < relations - 1
            asked = [column[keep] for column in asked]
        lists = side(*asked)
        for query, key in enumerate(zip(*(column.tolist() for column in asked))):
            assert lists.of(query).tolist() == sorted(expected[key])


def test_places_of_numbers_that_share_a_slot():
    wanted = np.unique(np.random.default_rng(1).integers(0, 1 << 60, 50_000))
    index = known_triples._Places(wanted)
    assert len(index._lost) > 100
    keys = np.concatenate([wanted[::-1], wanted + 1, [0, -1]])
    rows, places = index.find(keys)
    np.testing.assert_array_equal(rows, np.flatnonzero(np.isin(keys, wanted)))
    np.testing.assert_array_equal(wanted[places], keys[rows])
