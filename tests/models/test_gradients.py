"""Every model x loss x direction: closed-form gradients against autograd in float64."""

import numpy as np
import pytest

from dglke_frugal import _native, options
from dglke_frugal.models import MODELS, find_model
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig
from models import reference

ENTITIES, RELATIONS, CHUNK, CHUNKS, NEGATIVES = 23, 3, 6, 3, 5  # few of each, so that everything occurs more than once
TWO_FORMULA_MODELS = [model.name for model in MODELS if model.two_formulas]
# And whether entities and relations have twice that size; of each model with gradients of its own.
HIDDEN = {"TransE_l1": (19, False, False),
          "TransE_l2": (37, False, False),
          "DistMult": (16, False, False),
          "ComplEx": (22, False, False),
          "RotatE": (11, True, False),
          "SimplE": (9, True, True),
          "RESCAL": (7, False, False),
          "TransR": (9, False, True)}
LOSSES = {"logsigmoid": LossConfig(regularization_coefficient=0),
          "adversarial": LossConfig(adversarial=True, temperature=0.7, regularization_coefficient=0),
          "bce": LossConfig(genre="BCE", regularization_coefficient=0),
          "hinge": LossConfig(genre="Hinge", margin=1.5, regularization_coefficient=0),
          "adversarial-hinge": LossConfig(genre="Hinge", margin=1.5, adversarial=True, regularization_coefficient=0),
          "softmax": LossConfig(genre="Softmax", regularization_coefficient=0),
          "pairwise-logistic": LossConfig(genre="Logistic", pairwise=True, regularization_coefficient=0),
          "pairwise-hinge": LossConfig(genre="Hinge", pairwise=True, margin=3, regularization_coefficient=0)}


BY_RULE = [(model.name, "textbook") for model in MODELS if model.name in HIDDEN]
BY_RULE += [(model, "dglke") for model in TWO_FORMULA_MODELS]


def make_case(model, loss, corrupt_head, degree_negatives, weighted, scale=1.0, chunk=CHUNK, rule="textbook"):
    """A random batch, tables and configuration."""
    dims = find_model(model).dims(*HIDDEN[model])
    random = np.random.default_rng(7)
    tables = []
    for rows, dim in ((ENTITIES, dims.entity), (RELATIONS, dims.relation), (RELATIONS, dims.projection)):
        table = _native.HostTable(rows, dim) if dim else None
        if table:
            table.embeddings[:] = scale * random.uniform(-1, 1, (rows, dim))
        tables.append(table)
    positives = chunk * CHUNKS
    batch = _native.make_batch(
        random.integers(0, ENTITIES, positives), random.integers(0, RELATIONS, positives),
        random.integers(0, ENTITIES, positives), random.integers(0, ENTITIES, CHUNKS * NEGATIVES), corrupt_head, chunk,
        ENTITIES, RELATIONS, weight=random.uniform(0.2, 3, positives).astype(np.float32) if weighted else None)
    config = StepConfig(model, dims.entity, dims.relation, reference.GAMMA, 0.5, 0.1, loss, degree_negatives, rule)
    return config, batch, tables


def assert_gradients_agree(config, batch, tables):
    losses, gradients = native_step(config).differentiate(batch, *tables)
    expected = reference.differentiate(config.model, config.loss, batch, *tables, config.degree_negatives,
                                       config.score_rule)
    assert_agree(losses.total, gradients, *expected)


def assert_agree(loss, gradients, expected_loss, expected):
    """Loss and gradients by part of an edge are those expected, but for rounding."""
    np.testing.assert_allclose(loss, expected_loss, rtol=2e-5)
    assert gradients.keys() == expected.keys()
    for part, gradient in gradients.items():
        bound = 1e-4 * max(np.abs(expected[part]).max(), 1e-3)
        np.testing.assert_allclose(gradient, expected[part], rtol=0, atol=bound, err_msg=part)


@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("corrupt_head", [False, True], ids=["tails", "heads"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model, rule", BY_RULE)
def test_against_autograd(model, rule, loss, corrupt_head, degree_negatives):
    assert_gradients_agree(
        *make_case(model, LOSSES[loss], corrupt_head, degree_negatives, weighted=corrupt_head, rule=rule))


@pytest.mark.parametrize("model, rule", [("TransE_l1", "textbook"), ("RotatE", "textbook"), ("RESCAL", "textbook"),
                                         ("TransR", "textbook"), ("TransR", "dglke")])
def test_chunks_that_are_cut(model, rule):
    """More edges, and more of one relation, than one task takes."""
    assert_gradients_agree(*make_case(model, LOSSES["adversarial"], False, True, False, chunk=150, rule=rule))


@pytest.mark.parametrize("model", TWO_FORMULA_MODELS)
def test_the_rules_differ_in_corrupted_tails_alone(model):
    def gradients(corrupt_head, rule):
        config, batch, tables = make_case(model, LOSSES["logsigmoid"], corrupt_head, False, False, rule=rule)
        return native_step(config).differentiate(batch, *tables)[1]

    for part, gradient in gradients(True, "textbook").items():
        np.testing.assert_allclose(gradient, gradients(True, "dglke")[part], rtol=1e-4, atol=1e-6)
    assert np.abs(gradients(False, "textbook")["head"] - gradients(False, "dglke")["head"]).max() > 0.01


@pytest.mark.parametrize("name", options.LOSSES)
def test_a_margin_counts_as_used_where_a_loss_has_one(name):
    """Where --margin changes numbers a resumed run must not change it, and elsewhere it has no effect."""
    def loss(margin):
        config, batch, tables = make_case("DistMult", LossConfig(genre=name, margin=margin), False, False, False)
        return native_step(config).differentiate(batch, *tables[:2])[0].total

    assert (loss(1.0) != loss(2.0)) == options.LOSSES[name].margin


@pytest.mark.parametrize("corrupt_head", [False, True])
def test_simple_outside_its_bounds(corrupt_head):
    """Clamped scores have no gradient."""
    config, batch, tables = make_case("SimplE", LOSSES["logsigmoid"], corrupt_head, False, False, scale=4.0)
    scores = 0.5 * tables[0].embeddings.max() ** 3 * tables[0].dim
    assert scores > 20
    assert_gradients_agree(config, batch, tables)


@pytest.mark.parametrize("genre", ["Logsigmoid", "BCE", "Logistic", "Softmax"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_losses_stay_finite_at_extreme_scores(genre, scale):
    loss = LossConfig(genre=genre, adversarial=genre != "Softmax")
    config, batch, tables = make_case("DistMult", loss, False, False, False, scale)
    losses, gradients = native_step(config).differentiate(batch, *tables[:2])
    assert np.isfinite(losses.total)
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize("norm", [1, 2, 3, 2.5])
@pytest.mark.parametrize("model", ["TransE_l2", "RESCAL", "TransR"])
def test_regularization(model, norm):
    """Every row read counts, a positive entity once; the penalty's gradient moves the state."""
    coefficient = 0.01
    loss = LossConfig(regularization_coefficient=coefficient, regularization_norm=norm)
    config, batch, tables = make_case(model, loss, False, False, True)
    step = native_step(config)
    _, gradients = step.differentiate(batch, *tables)
    entities, relations = (table.embeddings.astype(np.float64) for table in tables[:2])
    positive = np.unique(np.concatenate([batch.head, batch.tail]))
    read = [entities[positive], entities[batch.negative], relations[batch.relation]]
    expected = coefficient * sum((np.abs(rows) ** norm).sum() for rows in read)

    penalty = [coefficient * norm * np.sign(table) * np.abs(table) ** (norm - 1) for table in (entities, relations)]
    states = [np.zeros(ENTITIES), np.zeros(RELATIONS)]
    by_positive = np.zeros_like(entities)
    for ids, part in ((batch.head, "head"), (batch.tail, "tail")):
        np.add.at(by_positive, ids, gradients[part])
    states[0][positive] += ((by_positive + penalty[0]) ** 2).mean(1)[positive]
    np.add.at(states[0], batch.negative, ((gradients["negative"] + penalty[0][batch.negative]) ** 2).mean(1))
    np.add.at(states[1], batch.relation, ((gradients["relation"] + penalty[1][batch.relation]) ** 2).mean(1))

    losses = step.run_in_place(batch, *tables)
    np.testing.assert_allclose(losses.regularization, expected, rtol=1e-6)
    for table, state in zip(tables, states):
        np.testing.assert_allclose(table.state, state, rtol=1e-4)
