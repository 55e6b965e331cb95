"""Who owns which row, who trains which triple, and where negatives come from."""
import numpy as np
import pytest
from training.machines.thread_machines import configuration, samplers, small_graph

from dglke_frugal import _native
from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.errors import InputError
from dglke_frugal.training.batches import edge_partition, metis_owners
from dglke_frugal.training.batches.edge_partition import HOT_SHARE, partition_edges, row_owners


@pytest.mark.parametrize("rows, workers", [(1, 1), (7, 3), (1000, 7), (4096, 64), (2**33 + 5, 5)])
@pytest.mark.parametrize("hashed", [True, False])
def test_each_row_has_one_owner_and_a_place_there(rows, workers, hashed):
    owners = _native.RowOwners(rows, workers, hashed)
    ids = np.arange(rows) if rows < 10**6 else np.unique(np.random.default_rng(1).integers(rows, size=1000))
    owner, local = owners.owner(ids), owners.local(ids)
    counts = [owners.count(worker) for worker in range(workers)]
    assert sum(counts) == rows and max(counts) - min(counts) <= 1
    for worker in range(workers):
        own = ids[owner == worker]
        np.testing.assert_array_equal(owners.ids(worker, local[owner == worker]), own)
        if len(ids) == rows:
            np.testing.assert_array_equal(np.sort(local[owner == worker]), np.arange(counts[worker]))
    if not hashed:
        assert (np.diff(owner) >= 0).all()


def test_rows_in_a_given_order_are_shared_out_in_it():
    order = np.random.default_rng(2).permutation(1000)
    owners = _native.RowOwners(order, 7)
    assert (owners.rows, owners.workers) == (1000, 7)
    found = [owners.ids(worker, np.arange(owners.count(worker))) for worker in range(7)]
    np.testing.assert_array_equal(np.concatenate(found), order)
    for worker, ids in enumerate(found):
        assert (owners.owner(ids) == worker).all() and len(ids) in (142, 143)
        np.testing.assert_array_equal(owners.local(ids), np.arange(len(ids)))


@pytest.mark.parametrize("order, workers, sentence", [
    ([0, 2, 2], 2, "each row once"), ([0, 1, 3], 2, "each row once"), ([0, -1, 1], 2, "each row once"),
    ([1, 0], 3, "at least one row")])
def test_a_wrong_order_is_refused(order, workers, sentence):
    with pytest.raises(ValueError, match=sentence):
        _native.RowOwners(np.array(order), workers)


def test_by_hash_neighbouring_ids_are_spread():
    owners = _native.RowOwners(100_000, 4, True)
    owner = owners.owner(np.arange(100_000)).reshape(-1, 100)
    of_block = np.stack([(owner == worker).sum(axis=1) for worker in range(4)])
    assert of_block.min() >= 20 and of_block.max() <= 30


def test_the_order_of_rows_does_not_depend_on_the_number_of_workers():
    three, one = _native.RowOwners(1000, 3, True), _native.RowOwners(1000, 1, True)
    order = np.concatenate([three.ids(worker, np.arange(three.count(worker))) for worker in range(3)])
    np.testing.assert_array_equal(order, one.ids(0, np.arange(1000)))


@pytest.mark.parametrize("how", ["hash", "range"])
def test_triples_go_to_the_owner_of_their_head_but_for_hot_heads(how):
    graph, ranks = small_graph(5000, triples=20000), 3
    owners, parts = row_owners(how, graph.n_entities, ranks), partition_edges(how, graph, ranks).parts
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(20000))
    hot = np.bincount(graph.train.head, minlength=5000) * HOT_SHARE * ranks * ranks > 20000
    assert hot.any()
    for rank, part in enumerate(parts):
        heads = np.asarray(graph.train.head[part], np.int64)
        assert (owners.owner(heads[~hot[heads]]) == rank).all()
    dealt = [hot[graph.train.head[part]].sum() for part in parts]
    assert max(dealt) - min(dealt) <= 1


def test_triples_are_divided_alike_in_blocks_of_any_size(monkeypatch):
    graph = small_graph(5000, triples=20000)
    whole = partition_edges("hash", graph, 3).parts
    monkeypatch.setattr(edge_partition, "BLOCK", 999)
    for part, in_blocks in zip(whole, partition_edges("hash", graph, 3).parts):
        assert in_blocks.dtype == np.int32
        np.testing.assert_array_equal(in_blocks, part)


def test_local_negatives_are_a_workers_own_and_all_of_them():
    graph = small_graph(300)
    owners, sources = samplers(configuration(3, negatives="local"), graph)
    for worker, source in enumerate(sources):
        drawn = np.concatenate([source.batch(step).negative for step in range(200)])
        own = owners.ids(worker, np.arange(owners.count(worker)))
        np.testing.assert_array_equal(np.unique(drawn), np.sort(own))
        counts = np.bincount(owners.local(drawn), minlength=len(own))
        assert counts.std() < 2 * counts.mean() ** 0.5
    _, sources = samplers(configuration(3, negatives="global"), graph)
    assert len(np.unique(np.concatenate([sources[0].batch(step).negative for step in range(200)]))) > 290


def test_local_negatives_of_a_given_order_are_a_workers_own(monkeypatch):
    graph = small_graph(300)
    given = _native.RowOwners(np.random.default_rng(5).permutation(300), 3)
    monkeypatch.setattr(metis_owners, "read_owners", lambda *_: given)
    owners, sources = samplers(configuration(3, "metis", "local"), graph)
    assert owners is given
    for worker, source in enumerate(sources):
        batches = [source.batch(step) for step in range(200)]
        drawn = np.unique(np.concatenate([batch.negative for batch in batches]))
        np.testing.assert_array_equal(drawn, np.sort(owners.ids(worker, np.arange(owners.count(worker)))))


def test_workers_without_rows_or_heads_are_refused():
    train = Triples(*(np.zeros(4, np.int32) for _ in range(3)))
    with pytest.raises(InputError, match="2 entities cannot be divided over 3 ranks"):
        partition_edges("hash", KnowledgeGraph("tiny", 2, 1, train), 3)
    train = Triples(np.array([0, 1, 2], np.int32), *(np.zeros(3, np.int32) for _ in range(2)))
    with pytest.raises(InputError, match="rank . of 4 owns no head of a training triple"):
        partition_edges("range", KnowledgeGraph("tiny", 400, 1, train), 4)


def test_wrong_ids_are_refused():
    owners = _native.RowOwners(10, 2, True)
    for call in (owners.owner, owners.local):
        with pytest.raises(IndexError, match="10"):
            call(np.array([3, 10]))
