"""Subsampling weights against counts in dictionaries, and on their way into batches."""

from collections import Counter

import numpy as np
import pytest

from dglke_frugal.data import Triples
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.batches.subsampling import subsampling_weights

ENTITIES, RELATIONS, EDGES = 40, 3, 600


@pytest.fixture(params=[np.int32, np.int64])
def triples(request):
    columns = np.random.default_rng(8).integers(0, [ENTITIES, RELATIONS, ENTITIES], (EDGES, 3))
    columns[:100] = columns[0] * [1, 1, 0] + np.arange(100)[:, None] % ENTITIES * [0, 0, 1]  # some are frequent
    return Triples(*columns.T.astype(request.param))


def oracle(how, triples):
    """Of each triple, where tails are replaced and where heads are."""
    heads, tails = Counter(), Counter()
    for h, r, t in zip(*(column.tolist() for column in triples)):
        heads[h, r] += 1
        tails[r, t] += 1
    found = []
    for h, r, t in zip(*(column.tolist() for column in triples)):
        head, tail = heads[h, r] - 1 + 4, tails[r, t] - 1 + 4  # counts begin with 4
        found.append([(head + tail) ** -0.5] * 2 if how == "base" else [head**-0.5, tail**-0.5])
    return np.array(found).T


@pytest.mark.parametrize("how", ["base", "uniq"])
def test_weights_are_those_of_counts_in_dictionaries(triples, how):
    expected = oracle(how, triples)
    found = subsampling_weights(how, triples, RELATIONS)
    assert found.dtype == np.float32 and found.shape == ((EDGES,) if how == "base" else (2, EDGES))
    both = np.broadcast_to(found, (2, EDGES))
    np.testing.assert_allclose(both.mean(axis=1, dtype=np.float64), 1, rtol=1e-6)
    for mine, wanted in zip(both, expected):
        np.testing.assert_allclose(mine / mine[0], wanted / wanted[0], rtol=1e-6)
    assert len(np.unique(found)) > 10


def test_bernoulli_weights_are_probabilities_of_sets(triples):
    """Twice the probability of the paper that a head is replaced, by the mean tails of a head and heads of a tail."""
    heads, tails = ([set() for _ in range(RELATIONS)] for _ in range(2))
    for h, r, t in zip(*(column.tolist() for column in triples)):
        heads[r].add(h)
        tails[r].add(t)
    count = np.bincount(triples.relation, minlength=RELATIONS)
    per_head = [count[r] / len(heads[r]) for r in range(RELATIONS)]
    per_tail = [count[r] / len(tails[r]) for r in range(RELATIONS)]
    replaces_head = np.array([per_head[r] / (per_head[r] + per_tail[r]) for r in triples.relation.tolist()])
    found = subsampling_weights("bernoulli", triples, RELATIONS)
    assert found.dtype == np.float32 and len(np.unique(found[0])) > 1
    np.testing.assert_allclose(found, 2 * np.stack([1 - replaces_head, replaces_head]), rtol=1e-6)


@pytest.mark.parametrize("inverse", [0, RELATIONS])
@pytest.mark.parametrize("how", ["base", "uniq"])
def test_a_batch_has_the_weights_of_its_direction(triples, how, inverse):
    """Of inverse relations too, whose heads are the tails of the triples."""
    weight = {}
    for edge, pair in zip(zip(*(column.tolist() for column in triples)), oracle(how, triples).T):
        weight[edge] = pair
    mean = oracle(how, triples).mean(axis=1)
    sampler = Sampler(*triples, ENTITIES, RELATIONS + inverse, SamplerConfig(50, 10, 3, inverse=inverse),
                      weight=subsampling_weights(how, triples, RELATIONS))
    assert sampler.weighted
    for step in range(60):
        batch = sampler.batch(step)
        head, relation, tail = batch.head, batch.relation, batch.tail
        if inverse and step % 2:
            head, relation, tail = tail, relation - inverse, head
        edges = zip(head.tolist(), relation.tolist(), tail.tolist())
        expected = [weight[edge][step % 2] / mean[step % 2] for edge in edges]
        np.testing.assert_allclose(batch.weight, expected, rtol=1e-6)
