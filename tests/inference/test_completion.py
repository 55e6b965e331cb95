"""The best triples against sorting all of them."""

import itertools

import numpy as np
import pytest
from evaluation.random_models import NAMES, random_model
from evaluation.ranking_oracle import score

from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import EmbeddingModel
from dglke_frugal.inference.completion import best_triples, triple_keys

HEADS, RELATIONS, TAILS = np.array([5, 0, 60, 7]), np.array([4, 1, 2]), np.arange(0, 61, 3)


def expected(model, k, groups):
    for combinations in groups:
        scored = sorted(((score(model, *triple), triple) for triple in combinations), key=lambda pair: -pair[0])[:k]
        yield np.array([s for s, _ in scored]), [tuple(map(int, triple)) for _, triple in scored]


def all_groups(mode):
    if mode == "triplet_wise":
        return [list(zip(HEADS[:3], RELATIONS, TAILS[:3]))]
    if mode == "all":
        return [itertools.product(HEADS, RELATIONS, TAILS)]
    if mode == "batch_head":
        return [itertools.product([h], RELATIONS, TAILS) for h in HEADS]
    if mode == "batch_rel":
        return [itertools.product(HEADS, [r], TAILS) for r in RELATIONS]
    return [itertools.product(HEADS, RELATIONS, [t]) for t in TAILS]


@pytest.mark.parametrize("mode", ["triplet_wise", "all", "batch_head", "batch_rel", "batch_tail"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 6])
def test_the_best_are_the_first_of_all_sorted(name, mode, k):
    model = random_model(name)
    lists = (HEADS[:3], RELATIONS, TAILS[:3]) if mode == "triplet_wise" else (HEADS, RELATIONS, TAILS)
    results = best_triples(model, *lists, mode, k)
    wanted = list(expected(model, k, all_groups(mode)))
    assert len(results) == len(wanted)
    for result, (scores, triples) in zip(results, wanted):
        np.testing.assert_allclose(result.scores, scores, rtol=1e-5, atol=1e-5)
        if name not in ("SimplE", "TransR"):  # clamped scores tie; so do all (h, r, h) of TransR, but for rounding
            assert list(zip(result.heads.tolist(), result.relations.tolist(), result.tails.tolist())) == triples


@pytest.mark.parametrize("name", ["TransE_l1", "TransE_l2", "ComplEx", "RotatE"])
def test_tensors_give_what_arrays_give(name):
    import torch

    model = random_model(name, entities=500)
    tensors = EmbeddingModel(name, model.gamma, model.hidden_dim, torch.from_numpy(model.entity), model.relation)
    everything = np.arange(500)
    for mode in ("all", "batch_head", "batch_tail"):
        for ours, theirs in zip(best_triples(model, HEADS, RELATIONS, everything, mode, 12),
                                best_triples(tensors, HEADS, RELATIONS, everything, mode, 12)):
            np.testing.assert_array_equal(ours.tails, theirs.tails)
            np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_many_equal_scores_give_the_first_ones():
    model = random_model("DistMult", entities=5000)
    model.entity[:] = 1
    result = best_triples(model, np.array([0]), np.array([0]), np.arange(5000), "all", 7)[0]
    assert result.tails.tolist() == list(range(7))


def test_fewer_combinations_than_asked_for():
    model = random_model("DistMult")
    result = best_triples(model, np.array([1]), np.array([0]), np.array([3, 4]), "all", 10)[0]
    assert sorted(result.tails.tolist()) == [3, 4]


def test_scores_of_triples():
    for name in NAMES:
        model = random_model(name)
        lists = [np.array(ids) for ids in ([3, 9, 3], [0, 4, 2], [8, 8, 60])]
        np.testing.assert_allclose(model.scores(triple_keys(model, *lists)), [score(model, *t) for t in zip(*lists)],
                                   rtol=1e-5)


@pytest.mark.parametrize("lists, mode, k, message", [
    (([61], [0], [1]), "all", 1, "head id 61"),
    (([0], [5], [1]), "all", 1, "relation id 5"),
    (([0], [0], [-1]), "all", 1, "tail id -1"),
    (([0], [0], [1]), "some", 1, "exec_mode"),
    (([0], [0], [1]), "all", 0, "at least 1"),
    (([0, 1], [0], [1]), "triplet_wise", 1, "one length")])
def test_bad_requests_are_refused(lists, mode, k, message):
    with pytest.raises(InputError, match=message):
        best_triples(random_model("DistMult"), *(np.array(ids) for ids in lists), mode, k)
