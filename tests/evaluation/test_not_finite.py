"""NaN and infinite numbers: a sentence wherever they would reach a rank or an answer, and never a number."""

import numpy as np
import pytest
from evaluation.random_models import NAMES, random_model, random_triples

from dglke_frugal.divergence import Diverged, check_rows, longest_row
from dglke_frugal.evaluation import EmbeddingModel, Protocol, Sampling, evaluate, ogb
from dglke_frugal.inference.completion import best_entities, best_triples, triple_keys
from dglke_frugal.inference.similarity import MEASURES, most_similar

BAD = (np.nan, np.inf, -np.inf)
KEPT = Protocol(known="kept")


@pytest.mark.parametrize("number", BAD)
@pytest.mark.parametrize("name", NAMES)
def test_a_candidate_that_no_triple_names(name, number):
    """All other rows, and so the scores of all ranked triples, are finite."""
    model = random_model(name)
    triples = tuple(column[:20] % 40 for column in random_triples(model, 30))
    triples = triples[0], triples[1] % 5, triples[2]
    evaluate(model, triples, None, KEPT, show=False)
    model.entity[45, 3] = number
    with pytest.raises(Diverged, match="the training has diverged"):
        evaluate(model, triples, None, KEPT, show=False)
    with pytest.raises(Diverged):
        best_entities(model, "tail", np.array([1]), np.array([0]), 3)


@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("name", NAMES)
def test_sampled_candidates(name, group):
    model = random_model(name)
    model.entity[40:, 3] = np.nan
    protocol = Protocol(known="kept", sampling=Sampling(30, group))
    with pytest.raises(Diverged):
        evaluate(model, tuple(np.arange(10) % n for n in (40, 5, 39)), None, protocol)


@pytest.mark.parametrize("number", BAD)
@pytest.mark.parametrize("name", NAMES)
def test_relations_and_projections(name, number):
    triples = np.array([1]), np.array([2]), np.array([3])
    for table in ("relation", "projection"):
        model = random_model(name)
        rows = getattr(model, table)
        if rows is None:
            continue
        rows[2, 1] = number
        for ask in (lambda: evaluate(model, triples, None, KEPT, show=False),
                    lambda: evaluate(model, triples, None, Protocol(known="kept", sampling=Sampling(5)), show=False),
                    lambda: best_entities(model, "head", np.array([1]), np.array([2]), 3),
                    lambda: best_triples(model, *triples, "triplet_wise", 3),
                    lambda: model.scores(triple_keys(model, *triples))):
            with pytest.raises(Diverged):
                ask()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_whose_scores_float32_cannot_hold(name):
    """What is compared in float32 would be infinite, or infinite minus infinite: no candidate better than another."""
    model = random_model(name)
    large = EmbeddingModel(name, 3.0, model.hidden_dim, model.entity * np.float32(3e37), model.relation,
                           model.projection)
    with pytest.raises(Diverged):
        evaluate(large, tuple(np.arange(5) for _ in range(3)), None, KEPT, show=False)
    with pytest.raises(Diverged):
        best_entities(large, "tail", np.array([1]), np.array([0]), 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-30, 1e4])
def test_small_and_large_numbers_are_ranked(name, scale):
    model = random_model(name)
    if name == "RotatE" and scale > 1:
        model.relation[:] = 1  # angles
    other = EmbeddingModel(name, 3.0, model.hidden_dim, model.entity * np.float32(scale), model.relation,
                           model.projection)
    assert evaluate(other, tuple(np.arange(5) for _ in range(3)), None, KEPT, show=False).metrics().count == 10


def test_an_angle_that_float32_cannot_hold():
    model = random_model("RotatE")
    model.relation[1, 0] = 1e14
    with pytest.raises(Diverged, match="radians"):
        best_entities(model, "tail", np.array([1]), np.array([1]), 3)


@pytest.mark.parametrize("candidates", [None, np.array([[1, 2, 45]])])
def test_predictions_for_ogb(candidates):
    model = random_model("DistMult")
    model.entity[45, 3] = np.nan
    with pytest.raises(Diverged):
        ogb.predict_tails(model, np.array([1]), np.array([0]), candidates)


@pytest.mark.parametrize("mode", ["pairwise", "all", "batch_left"])
@pytest.mark.parametrize("measure", MEASURES)
def test_similar_rows(measure, mode):
    table = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    table[7, 2] = np.nan
    for left, right in ((7, 3), (3, 7)):
        with pytest.raises(Diverged):
            most_similar(table, np.array([left, 1]), np.array([right, 2]), mode, measure, 1)


@pytest.mark.parametrize("kind", ["rows of a store", "columns", "halves", "three axes"])
def test_the_row_is_named(kind):
    table = np.zeros((1 << 20, 24), np.float32)[:, :3]  # of several blocks
    if kind == "columns":
        table = np.asfortranarray(table)
    elif kind == "halves":
        table = table.astype(np.float16)
    elif kind == "three axes":
        table = np.zeros((1 << 19, 2, 20), np.float32)[..., :3]
    corner = (-5, *(0,) * (table.ndim - 2), 1)
    table[corner] = -9
    row = np.array(table[-5:-4], np.float32)
    assert check_rows(table, "it") == 9 and np.array_equal(longest_row(table, "it"), row)
    for bad in (-np.inf, np.inf, np.nan):
        table[-3, ..., 2] = bad
        with pytest.raises(Diverged, match=f"row {len(table) - 3} of the table"):
            check_rows(table, "the table")
    assert check_rows(np.zeros((0, 3), np.float32), "it") == 0
