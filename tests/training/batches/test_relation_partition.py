"""Dividing edges over ranks by relation."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dglke_frugal.errors import InputError
from dglke_frugal.training.batches.relation_partition import edges_of_rank, partition_by_relation
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=8, max_size=300), st.integers(1, 8))
def test_parts_are_disjoint_complete_and_split_only_large_relations(relation, ranks):
    relation = np.array(relation, np.int32)
    edges = len(relation)
    try:
        rank_of_edge = partition_by_relation(relation, 12, ranks)
    except InputError:
        assert len(np.unique(relation)) < ranks  # with as many relations as ranks, nobody goes without
        return
    parts = [edges_of_rank(rank_of_edge, rank) for rank in range(ranks)]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(edges))
    assert all(len(part) for part in parts)
    count = np.bincount(relation, minlength=12)
    holders = np.array([sum((relation[part] == r).any() for part in parts) for r in range(12)])
    threshold = min(int(edges * 0.05), edges // ranks)
    assert (holders[count <= threshold] <= 1).all()
    for r in np.flatnonzero(count > threshold):
        shares = [np.count_nonzero(relation[part] == r) for part in parts]
        assert max(shares) - min(shares) <= 1
    # A whole relation goes to the least loaded rank, so loads differ by no more than the largest one.
    loads = [len(part) for part in parts]
    assert max(loads) - min(loads) <= max(threshold, 1)


def test_one_relation_is_shared_by_all():  # the graph on which DGL-KE's --rel_part fails
    assert sorted(np.bincount(partition_by_relation(np.zeros(10, np.int64), 1, 3))) == [3, 3, 4]


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="without edges"):
        partition_by_relation(np.zeros(2, np.int64), 1, 3)
    with pytest.raises(InputError, match="relation map"):
        partition_by_relation(np.array([0, 5]), 5, 2)
    with pytest.raises(InputError, match="0 ranks"):
        partition_by_relation(np.array([0, 5]), 6, 0)


def test_fb15k_237_is_balanced_and_its_ranks_draw_their_own_parts(graphs):
    number = {}
    with open(graphs / "FB15k-237" / "train.txt", encoding="utf-8") as file:
        relation = np.array([number.setdefault(line.split("\t")[1], len(number)) for line in file])
    rank_of_edge = partition_by_relation(relation, 237, 4)
    loads = np.bincount(rank_of_edge, minlength=4)
    assert loads.max() < 1.01 * loads.min()
    edge = np.arange(len(relation))
    for rank in range(4):
        sampler = Sampler(edge, relation, edge, len(edge), 237, SamplerConfig(100, 10, rank=rank, ranks=4),
                          part=edges_of_rank(rank_of_edge, rank))
        assert sampler.edges == loads[rank]
        drawn = np.concatenate([sampler.batch(step).head for step in range(200)])
        assert (rank_of_edge[drawn] == rank).all()
