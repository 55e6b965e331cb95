"""The best answers where scores are equal and the keys that they are made of are not: the first ids, whatever k is."""

import numpy as np
import pytest
from evaluation.random_models import NAMES, random_model

from dglke_frugal.evaluation import EmbeddingModel
from dglke_frugal.inference.completion import best_entities, best_triples


def by_all_scores(model, side, stays, relations, k, score=None):
    """Ids of the k best of each question by the scores of all entities, equal ones in order of ids."""
    everyone = np.arange(len(model.entity))
    found = []
    for stay, relation in zip(stays, relations):
        fixed, ids = np.full_like(everyone, stay), np.full_like(everyone, relation)
        heads, tails = (everyone, fixed) if side == "head" else (fixed, everyone)
        (all_of_them,) = best_triples(model, heads, ids, tails, "triplet_wise", len(everyone), score)
        order = np.lexsort(((all_of_them.heads if side == "head" else all_of_them.tails), -all_of_them.scores))[:k]
        found.append((all_of_them.heads if side == "head" else all_of_them.tails)[order].tolist())
    return found


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_beyond_the_bound_of_simple(sign, k):
    """All scores are 20, or all are -20."""
    rows = np.array([[10, 1], [100, 100], [90, 90], [80, 80], [100, 100], [70, 70]], np.float32)
    model = EmbeddingModel("SimplE", 12.0, 1, rows, np.full((1, 2), sign, np.float32))
    ids, scores = best_entities(model, "tail", np.array([1]), np.array([0]), k)[0]
    assert set(scores.tolist()) == {20 * sign}
    assert ids.tolist() == list(range(6))[:k]


def rounded(model, factor):
    """Scores with few digits: monotone in the key."""
    return lambda keys: np.float32(factor) * np.round(model.scores(keys) / np.float32(factor))


@pytest.mark.parametrize("gamma", [3.0, 1e4])
@pytest.mark.parametrize("name", NAMES)
def test_scores_with_fewer_digits_than_keys(name, gamma):
    """Against the order of all scores, with a margin that leaves few digits, and with a function that leaves fewer."""
    model = random_model(name, entities=300)
    model = EmbeddingModel(name, gamma, model.hidden_dim, model.entity, model.relation, model.projection)
    stays, relations = np.arange(7), np.arange(7) % 5
    for side in ("head", "tail"):
        for k in (1, 4, 50, 300):
            answers = best_entities(model, side, stays, relations, k)
            assert [ids.tolist() for ids, _ in answers] == by_all_scores(model, side, stays, relations, k)
    coarse = rounded(model, 0.5)
    for k in (1, 4, 50):
        found = []
        for stay, relation in zip(stays, relations):
            question = np.array([stay]), np.array([relation]), np.arange(300)
            found.append(best_triples(model, *question, "all", k, coarse)[0].tails.tolist())
        assert found == by_all_scores(model, "tail", stays, relations, k, coarse)


def test_a_model_of_zeros():
    for name in NAMES:
        model = random_model(name, entities=40)
        model.entity[:] = 0
        ids, _ = best_entities(model, "tail", np.array([1]), np.array([0]), 3)[0]
        assert ids.tolist() == [0, 1, 2]
