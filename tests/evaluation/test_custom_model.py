"""A custom score function ranks as the built-in one that it imitates."""

import sys

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples

from dglke_frugal.divergence import Diverged
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import SIDES, EmbeddingModel, KnownTriples, Protocol, Sampling, evaluate
from dglke_frugal.inference.completion import triple_keys

CODE = """
from dglke_frugal.models import TorchModel

class Product(TorchModel):
    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)

class Masked(Product):
    # what is far below the others cannot be

    def __init__(self, instead, least=-2.0):
        self.instead, self.least = float(instead), least

    def score(self, head, relation, tail):
        scores = super().score(head, relation, tail)
        return scores.masked_fill(scores < self.least, self.instead)
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    (tmp_path / "product_of_three.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    built_in = random_model("DistMult", entities=150, coarse=True, dim=8)
    yield built_in, EmbeddingModel("product_of_three:Product", 3.0, 8, built_in.entity, built_in.relation)
    sys.modules.pop("product_of_three", None)


@pytest.mark.parametrize("known", ["excluded", "kept"])
def test_ranks_are_those_of_distmult(models, known):
    triples = random_triples(models[0], 300)
    test = tuple(column[::5] for column in triples)
    expected, found = (evaluate(model, test, KnownTriples([triples]), Protocol(known=known)) for model in models)
    for side in SIDES:
        np.testing.assert_array_equal(found.compared[side].better, expected.compared[side].better)
        np.testing.assert_array_equal(found.compared[side].equal, expected.compared[side].equal)


def test_what_it_cannot_do_is_reported(models):
    test = random_triples(models[0], 5)
    with pytest.raises(InputError, match="custom"):
        evaluate(models[1], test, None, Protocol(known="kept", sampling=Sampling(3)))
    with pytest.raises(InputError, match="custom"):
        models[1].operation


def test_candidates_that_cannot_be(models):
    """Minus infinity is below all scores; a triple that there is cannot have it, and no candidate another such
    number."""
    built_in, own = models
    triples = random_triples(built_in, 300)
    everything = evaluate(own, triples, None, Protocol(known="kept"))
    can_be = built_in.scores(triple_keys(built_in, *triples)) >= -2
    possible = tuple(column[can_be] for column in triples)
    assert 0 < len(possible[0]) < len(triples[0])
    masked = renamed(own, "Masked('-inf')")
    found = evaluate(masked, possible, None, Protocol(known="kept"))
    for side in SIDES:
        np.testing.assert_array_equal(found.compared[side].better, everything.compared[side].better[can_be])
    with pytest.raises(Diverged, match="returns -inf"):
        evaluate(masked, triples, None, Protocol(known="kept"))
    for number in ("nan", "inf"):
        with pytest.raises(Diverged, match=f"returns {number}"):
            evaluate(renamed(own, f"Masked('{number}')"), possible, None, Protocol(known="kept"))


def renamed(model, name):
    return EmbeddingModel(f"product_of_three:{name}", model.gamma, model.hidden_dim, model.entity, model.relation)
