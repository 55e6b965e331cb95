"""A user's own score function ranks as the built-in one that it imitates."""

import sys

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples

from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import SIDES, EmbeddingModel, KnownTriples, Protocol, Sampling, evaluate

CODE = """
from dglke_frugal.models import TorchModel

class Product(TorchModel):
    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)
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


def test_what_it_cannot_do_is_said(models):
    test = random_triples(models[0], 5)
    with pytest.raises(InputError, match="your own"):
        evaluate(models[1], test, None, Protocol(known="kept", sampling=Sampling(3)))
    with pytest.raises(InputError, match="your own"):
        models[1].operation
