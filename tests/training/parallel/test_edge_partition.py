"""How edges are divided over ranks."""

import sys

import numpy as np
import pytest
from training.parallel.conftest import NEEDS_METIS

from dglke_frugal.data import KnowledgeGraph, Triples, load_graph
from dglke_frugal.errors import InputError
from dglke_frugal.training.batches.edge_partition import SharedArray, partition_edges, partition_of_run, row_owners
from dglke_frugal.training.batches import metis_owners
from dglke_frugal.training.batches.metis_owners import OWNERS_FILE, _balanced, keep_owners


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


def entities_of_metis(graph, folder, ranks):
    keep_owners(folder, graph, ranks)
    owners = row_owners("metis", graph.n_entities, ranks, folder)
    return owners, owners.owner(np.arange(graph.n_entities))


@NEEDS_METIS
def test_metis_keeps_entities_together(graph, tmp_path):
    partition = partition_of_run(tmp_path, "metis", graph, 4)
    assert_whole(partition, graph)
    by_metis = sum(map(len, entities_of(partition, graph)))
    by_relation = sum(map(len, entities_of(partition_edges("relation", graph, 4), graph)))
    assert by_metis < 0.9 * by_relation
    with pytest.raises(InputError, match=f"does not divide {graph.n_entities} entities over 3 ranks; start a new run"):
        partition_of_run(tmp_path, "metis", graph, 3)


@NEEDS_METIS
@pytest.mark.parametrize("ranks", [2, 5])
def test_metis_gives_each_rank_as_many_entities_and_finds_the_same_again(graph, tmp_path, ranks):
    (tmp_path / "again").mkdir()
    owners, owner = entities_of_metis(graph, tmp_path, ranks)
    counts = np.bincount(owner, minlength=ranks)
    assert counts.tolist() == [owners.count(rank) for rank in range(ranks)] and counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(entities_of_metis(graph, tmp_path / "again", ranks)[1], owner)
    cut = (owner[graph.train.head] != owner[graph.train.tail]).mean()
    by_hash = row_owners("hash", graph.n_entities, ranks).owner(np.arange(graph.n_entities))
    assert cut < 0.8 * (by_hash[graph.train.head] != by_hash[graph.train.tail]).mean()


@NEEDS_METIS
def test_metis_divides_graphs_with_parallel_edges_and_loops(tmp_path):
    """With which METIS corrupts memory."""
    random = np.random.default_rng(3)
    head = random.zipf(1.3, 200_000) % 20_000
    train = Triples(*(each.astype(np.int32) for each in (head, np.zeros_like(head), (head + random.integers(
        -50, 50, len(head))) % 20_000)))
    assert (train.head == train.tail).any() and len(set(zip(*map(np.ndarray.tolist, train)))) < len(head)
    _, owner = entities_of_metis(KnowledgeGraph("loops", 20_000, 1, train), tmp_path, 4)
    assert (owner[train.head] != owner[train.tail]).mean() < 0.1


def test_a_part_that_is_too_large_gives_up_entities_of_few_triples():
    owner, degree = np.array([0, 0, 0, 0, 0, 1, 2, 2]), np.array([5, 1, 4, 2, 3, 1, 9, 9])
    np.testing.assert_array_equal(_balanced(owner, degree, 3), [0, 2, 0, 1, 1, 1, 2, 2])


@NEEDS_METIS
@pytest.mark.parametrize("ends, entities", [(range(3), 3), ([0] * 500, 501), ([0, 1], 10_000), (range(63), 64)],
                         ids=["loops", "star", "isolated", "chain"])
def test_metis_divides_odd_graphs(tmp_path, ends, entities):
    head = np.array(ends, np.int32)
    tail = head if entities == 3 else np.arange(1, len(head) + 1, dtype=np.int32)
    graph = KnowledgeGraph("odd", entities, 1, Triples(head, np.zeros_like(head), tail))
    for ranks in {2, min(entities, 64)}:
        (folder := tmp_path / str(ranks)).mkdir()
        owners, owner = entities_of_metis(graph, folder, ranks)
        assert np.bincount(owner, minlength=ranks).tolist() == [owners.count(rank) for rank in range(ranks)]
    with pytest.raises(InputError, match=f"{entities} entities cannot be divided over {entities + 1} ranks; use fewer"):
        keep_owners(tmp_path, graph, entities + 1)


@pytest.mark.parametrize("content", [np.zeros(14541, np.int32), np.zeros(3, np.int32), b"", b"no array"],
                         ids=["one rank", "short", "empty", "text"])
def test_damaged_owners_are_refused(tmp_path, content):
    path = tmp_path / OWNERS_FILE
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    with pytest.raises(InputError, match=f"{OWNERS_FILE} cannot be used: .*; start a new run"):
        row_owners("metis", 14541, 2, tmp_path)


def test_hot_entities_are_those_of_the_part(graph):
    partition = partition_edges("relation", graph, 2)
    for part, hot in zip(partition.parts, partition.hot_entities(graph)):
        degree = np.bincount(np.concatenate([graph.train.head[part], graph.train.tail[part]]),
                             minlength=graph.n_entities)
        assert (np.diff(degree[hot]) <= 0).all() and np.array_equal(np.sort(hot), np.arange(graph.n_entities))


def test_without_pymetis_metis_is_refused_in_a_sentence(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match="--partition metis needs pymetis, which is not installed: .*choose --part"):
        partition_of_run(tmp_path, "metis", graph, 2)
    assert not list(tmp_path.iterdir())


@NEEDS_METIS
def test_metis_that_ends_in_another_way_is_a_sentence(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(metis_owners, "_PART", "import os; {path!r}; os.abort()")
    with pytest.raises(InputError, match=r"exit code -6 \(no message\); choose --partition hash"):
        partition_of_run(tmp_path, "metis", graph, 2)
    assert not list(tmp_path.iterdir())


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
