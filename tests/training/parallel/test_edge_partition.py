"""How edges are divided over ranks."""

import sys

import numpy as np
import pytest

from dglke_frugal.data import load_graph
from dglke_frugal.errors import InputError
from dglke_frugal.training.batches.edge_partition import SharedArray, partition_edges, partition_of_run


@pytest.fixture(scope="module")
def graph(graphs):
    return load_graph("small", graphs / "fb15k-small", "raw_udd_hrt", ["train.txt", "valid.txt", "test.txt"])


def assert_whole(partition, graph):
    np.testing.assert_array_equal(np.sort(np.concatenate(partition.parts)), np.arange(len(graph.train)))


def entities_of(partition, graph):
    return [np.union1d(graph.train.head[part], graph.train.tail[part]) for part in partition.parts]


def test_relations_have_one_rank_but_for_the_large_ones(graph):
    partition = partition_edges("relation", graph, 3)
    assert_whole(partition, graph)
    of_rank = [np.unique(graph.train.relation[part]) for part in partition.parts]
    relations, ranks = np.unique(np.concatenate(of_rank), return_counts=True)
    large = np.bincount(graph.train.relation)[relations[ranks > 1]]
    assert (large > 0.05 * len(graph.train)).all()
    assert all(np.isin(each, relations[ranks == 1]).any() for each in of_rank)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is no dgl for this Python")
def test_metis_keeps_entities_together(graph, tmp_path):
    partition = partition_of_run(tmp_path, "metis", graph, 4)
    assert_whole(partition, graph)
    by_metis = sum(map(len, entities_of(partition, graph)))
    by_relation = sum(map(len, entities_of(partition_edges("relation", graph, 4), graph)))
    assert by_metis < 0.8 * by_relation
    again = partition_of_run(tmp_path, "metis", graph, 4)
    assert all(np.array_equal(one, other) for one, other in zip(partition.parts, again.parts))
    with pytest.raises(InputError, match="does not divide 11397 triples over 3 ranks; start a new run"):
        partition_of_run(tmp_path, "metis", graph, 3)


def test_hot_entities_are_those_of_the_part(graph):
    partition = partition_edges("relation", graph, 2)
    for part, hot in zip(partition.parts, partition.hot_entities(graph)):
        degree = np.bincount(np.concatenate([graph.train.head[part], graph.train.tail[part]]),
                             minlength=graph.n_entities)
        assert (np.diff(degree[hot]) <= 0).all() and np.array_equal(np.sort(hot), np.arange(graph.n_entities))


def test_without_dgl_metis_is_refused_in_a_sentence(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "dgl", None)
    monkeypatch.setattr("dglke_frugal.vanilla.install", lambda: None)
    with pytest.raises(InputError, match="--partition metis cannot be used here.*choose --partition random"):
        partition_edges("metis", graph, 2)


def test_too_many_ranks_are_refused(graph):
    with pytest.raises(InputError, match="cannot be divided over 20000 ranks"):
        partition_edges("random", graph, 20000)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_shared_arrays_are_the_same_elsewhere(dtype):
    array = np.arange(12, dtype=dtype).reshape(3, 4)
    shared = SharedArray(array)
    attached = SharedArray.attach(shared.address)
    np.testing.assert_array_equal(attached, array)
    assert attached.dtype == dtype and not attached.flags.writeable
