import numpy as np
import pytest

from dglke_frugal.evaluation import KnownTriples, Metrics
from dglke_frugal.evaluation.known_triples import Lists
from dglke_frugal.evaluation.metrics import process_lines


def test_metrics_of_given_ranks():
    metrics = Metrics.of([np.array([1, 2]), np.array([4, 20])])
    assert metrics.mrr == (1 + 1 / 2 + 1 / 4 + 1 / 20) / 4
    assert (metrics.mr, metrics.hits_at_1, metrics.hits_at_3, metrics.hits_at_10) == (27 / 4, 1 / 4, 2 / 4, 3 / 4)
    assert metrics.count == 4


def test_sums_run_in_dglkes_order():
    """DGL-KE adds one reciprocal after the other; numpy's pairwise sum would print other last digits."""
    ranks = np.random.default_rng(0).integers(1, 15000, 100_001)
    total = 0.0
    for rank in ranks:
        total += 1.0 / int(rank)
    assert Metrics.of([ranks]).mrr == total / len(ranks)


def test_lines_have_dglkes_wording():
    metrics = Metrics.of([np.array([1, 4])])
    assert process_lines(metrics, "Valid") == ["[0]Valid average MRR: 0.625",
                                               "[0]Valid average MR: 2.5",
                                               "[0]Valid average HITS@1: 0.5",
                                               "[0]Valid average HITS@3: 0.5",
                                               "[0]Valid average HITS@10: 1.0"]


def test_known_answers_are_sorted_distinct_and_in_the_order_asked():
    heads, relations, tails = np.array([2, 0, 2, 2, 0]), np.array([1, 0, 1, 0, 0]), np.array([5, 3, 4, 9, 3])
    known = KnownTriples([(heads, relations, tails), (np.array([2]), np.array([1]), np.array([5]))])
    answers = known.tails(np.array([2, 0, 7, 2]), np.array([1, 0, 0, 1]))
    assert [answers.of(i).tolist() for i in range(4)] == [[4, 5], [3], [], [4, 5]]
    assert known.heads(np.array([5]), np.array([1])).of(0).tolist() == [2]
    assert known.heads(np.array([5]), np.array([0])).of(0).tolist() == []


def test_lists_say_what_they_contain_and_take_more():
    rng = np.random.default_rng(0)
    queries, items = rng.integers(0, 9, 300), rng.integers(0, 40, 300)
    queries[queries == 4] = 5  # of nothing
    lists = Lists.from_pairs(queries, items, 9)
    pairs = set(zip(queries.tolist(), items.tolist()))
    asked = [(query, item) for query in range(9) for item in range(-1, 42)]
    found = lists.contain(*np.array(asked).T)
    assert found.tolist() == [pair in pairs for pair in asked] and Lists.empty(2).contain(
        np.array([0, 1]), np.array([0, 0])).tolist() == [False, False]
    more = lists.with_items(np.array([4, 0]), np.array([7, 41]))
    assert more.of(4).tolist() == [7] and more.of(0).tolist() == [*lists.of(0).tolist(), 41]
    assert all(more.of(query).tolist() == lists.of(query).tolist() for query in range(1, 9) if query != 4)


@pytest.mark.parametrize("parts", [[], [tuple(np.zeros(0, np.int32) for _ in range(3))]])
def test_nothing_known(parts):
    assert KnownTriples(parts).tails(np.array([1, 2]), np.array([0, 0])).pointers.tolist() == [0, 0, 0]
