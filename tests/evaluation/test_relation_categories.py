"""Categories of relations against counting in plain Python."""

from collections import defaultdict

import numpy as np
from hypothesis import given, strategies as st

from dglke_frugal.evaluation.relation_categories import relation_categories

IDS = st.integers(0, 6)


def plain(triples, relations):
    found = []
    for number in range(relations):
        heads, tails = defaultdict(set), defaultdict(set)
        for h, r, t in triples:
            if r == number:
                heads[t].add(h)
                tails[h].add(t)

        def letter(groups):
            return "N" if sum(map(len, groups.values())) / len(groups) >= 1.5 else "1"

        found.append(f"{letter(heads)}-{letter(tails)}" if heads else "")
    return found


@given(st.lists(st.tuples(IDS, st.integers(0, 3), IDS), max_size=60))
def test_categories_are_those_of_plain_counting(triples):
    columns = np.array(triples, np.int32).reshape(-1, 3).T
    assert relation_categories(*columns, 5) == plain(triples, 5)


def test_each_category_by_example():
    triples = [(0, 0, 1), (2, 0, 3), (0, 1, 1), (0, 1, 2), (1, 2, 0), (2, 2, 0)]
    triples += [(h, 3, t) for h in range(3) for t in range(3)]
    assert relation_categories(*np.array(triples).T, 4) == ["1-1", "1-N", "N-1", "N-N"]
