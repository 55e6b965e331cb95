"""The stream of batches that dglke gets: what DGL-KE's documentation and the C++ sampler promise of it."""
import types

import numpy as np
import pytest

from dglke_frugal import vanilla

BATCH, NEGATIVES, ENTITIES = 48, 12, 90


@pytest.fixture(scope="module")
def samplers():
    vanilla.install()
    import dglke.dataloader.sampler

    return dglke.dataloader.sampler


def graph(n_edges, seed=0):
    """(heads, relations, tails) without duplicate triples."""
    codes = np.random.default_rng(seed).permutation(ENTITIES * 4 * ENTITIES)[:n_edges]
    return codes // (4 * ENTITIES), codes // ENTITIES % 4, codes % ENTITIES


def stream(samplers, triples, importance=None):
    vanilla.seed_everything(0)
    weighted = importance is not None
    edges = (*triples, importance) if weighted else triples
    data = types.SimpleNamespace(train=edges, n_entities=ENTITIES, n_relations=4)
    flags = types.SimpleNamespace(has_edge_importance=weighted, rel_part=False)
    train = samplers.TrainDataset(data, flags, ranks=1, has_importance=weighted)
    sides = [train.create_sampler(BATCH, NEGATIVES, NEGATIVES, mode=mode, num_workers=8, shuffle=True)
             for mode in ("head", "tail")]
    return samplers.NewBidirectionalOneShotIterator(*sides, NEGATIVES, NEGATIVES, True, ENTITIES, weighted)


def positives(batch):
    source, destination = batch.all_edges(order="eid")
    ids = batch.ndata["id"]
    return np.stack([ids[source].numpy(), batch.edata["id"].numpy(), ids[destination].numpy()], axis=1)


def negatives(batch):
    return batch.ndata["id"][batch.head_nid if batch.neg_head else batch.tail_nid].numpy()


@pytest.mark.parametrize("n_edges, batches, last", [
    (9 * BATCH, 9, BATCH),
    (9 * BATCH + 2 * NEGATIVES, 10, 2 * NEGATIVES),  # a last batch of whole chunks is kept
    (9 * BATCH + NEGATIVES + 5, 9, BATCH),  # and any other dropped
    (9 * BATCH + 5, 9, BATCH)])
def test_an_epoch_has_each_edge_once(samplers, n_edges, batches, last):
    triples = graph(n_edges)
    whole = set(zip(*map(np.ndarray.tolist, triples)))
    batch_stream = stream(samplers, triples)
    epochs = {False: [], True: []}
    for step in range(4 * batches):
        positive, negative = next(batch_stream)
        assert negative.neg_head == (step % 2 == 1)
        epochs[negative.neg_head].append(positives(positive))
    for side in epochs.values():
        orders = []
        for epoch in side[:batches], side[batches:]:
            assert [len(batch) for batch in epoch] == [BATCH] * (batches - 1) + [last]
            drawn = [tuple(triple) for triple in np.concatenate(epoch).tolist()]
            assert len(set(drawn)) == len(drawn) and set(drawn) <= whole
            orders.append(drawn)
        assert orders[0] != orders[1]
    assert epochs[False][0].tolist() != epochs[True][0].tolist()


def test_chunks_share_negatives_from_all_entities(samplers):
    batch_stream = stream(samplers, graph(20 * BATCH))
    seen = []
    for _ in range(40):
        positive, negative = next(batch_stream)
        assert (negative.num_chunks, negative.chunk_size) == (BATCH // NEGATIVES, NEGATIVES)
        assert negative.neg_sample_size == NEGATIVES
        seen.append(negatives(negative))
        assert len(seen[-1]) == negative.num_chunks * negative.neg_sample_size
    counts = np.bincount(np.concatenate(seen), minlength=ENTITIES)
    mean = 40 * BATCH / ENTITIES
    chi_square = ((counts - mean) ** 2 / mean).sum()
    assert len(counts) == ENTITIES and chi_square < 150  # 89 degrees of freedom: one seed in 20,000 exceeds it


def test_a_seed_fixes_every_generator(samplers):
    import random

    import dgl
    import torch

    def draws(seed):
        vanilla.seed_everything(seed)
        return [random.random(), np.random.random(), torch.rand(1).item(), *dgl.random.choice(10**6, 3).tolist()]

    first, again, other = draws(5), draws(5), draws(6)
    assert first == again
    assert all(a != b for a, b in zip(first, other))


def test_edge_weights_follow_their_edges(samplers):
    triples = graph(20 * BATCH)
    importance = np.random.default_rng(1).uniform(0.1, 2.0, 20 * BATCH)
    weight = dict(zip(zip(*map(np.ndarray.tolist, triples)), importance))
    batch_stream = stream(samplers, triples, importance)
    for _ in range(12):
        positive, _ = next(batch_stream)
        expected = [weight[tuple(triple)] for triple in positives(positive).tolist()]
        np.testing.assert_allclose(positive.edata["impts"].numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["head", "tail"])
def test_evaluation_ranks_against_all_and_filters_true_triples(samplers, side):
    triples = graph(600)
    known = set(zip(*map(np.ndarray.tolist, triples)))
    parts = [tuple(column[part] for column in triples) for part in (slice(0, 500), slice(500, 550), slice(550, 600))]
    data = types.SimpleNamespace(train=parts[0], valid=parts[1], test=parts[2], n_entities=ENTITIES)
    evaluation = samplers.EvalDataset(data, types.SimpleNamespace(eval_percent=1))
    sampler = evaluation.create_sampler("test", 16, ENTITIES, ENTITIES, True, mode="chunk-" + side, num_workers=8)
    ranked = []
    for positive, negative in sampler:
        candidates = negatives(negative)
        assert sorted(candidates) == list(range(ENTITIES)) and negative.num_chunks == 1
        bias = negative.edata["bias"].numpy().reshape(-1, ENTITIES)
        for (head, relation, tail), row in zip(positives(positive).tolist(), bias):
            replaced = [(c, relation, tail) if side == "head" else (head, relation, c) for c in candidates.tolist()]
            assert row.tolist() == [-1.0 if triple in known else 0.0 for triple in replaced]
            ranked.append((head, relation, tail))
    assert sorted(ranked) == sorted(zip(*map(np.ndarray.tolist, parts[2])))


def test_features_on_another_device_are_gathered_there():
    """With the arithmetic on a GPU, embeddings lie there and the graph does not; "meta" stands for any other device."""
    vanilla.install()
    import scipy.sparse
    import torch

    from dglke_frugal.vanilla.graph import ReadOnlyGraph

    edges = ReadOnlyGraph(scipy.sparse.coo_matrix((np.ones(3), ([0, 2, 2], [1, 1, 0])), shape=(3, 3)))
    edges.ndata["emb"] = torch.ones(3, 5, device="meta")
    edges.edata["emb"] = torch.ones(3, 5, device="meta")
    edges.apply_edges(lambda e: {"score": (e.src["emb"] + e.data["emb"] - e.dst["emb"]).sum(1)})
    assert edges.edata["score"].device.type == "meta" and edges.edata["score"].shape == (3,)
    edges.ndata["x"] = torch.tensor([1.0, 10.0, 100.0])
    edges.apply_edges(lambda e: {"difference": e.src["x"] - e.dst["x"]})
    assert edges.edata["difference"].tolist() == [-9.0, 90.0, 99.0]
