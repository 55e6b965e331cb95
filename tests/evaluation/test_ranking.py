"""Ranking against a brute-force oracle."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from evaluation.random_models import BY_RULE, NAMES, random_model, random_triples
from evaluation.ranking_oracle import better_and_equal, score
from threads import threads_as_before

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import SIDES, EmbeddingModel, KnownTriples, Protocol, evaluate
from dglke_frugal.score_rule import SCORE_RULES


def as_set(triples):
    return {tuple(int(x) for x in triple) for triple in zip(*triples)}


def assert_counts(evaluation, model, test, known, tolerance=1e-9):
    """Those of the oracle, whose numbers of better and of equal candidates are returned by side. known: see there."""
    found = {side: better_and_equal(model, test, side, known, tolerance=tolerance) for side in SIDES}
    for side, (better, equal) in found.items():
        np.testing.assert_array_equal(evaluation.compared[side].better, better)
        np.testing.assert_array_equal(evaluation.compared[side].equal, equal)
    return found


@pytest.mark.parametrize("name, rule", BY_RULE)
@pytest.mark.parametrize("filtered", [True, False], ids=["excluded", "kept"])
def test_counts_equal_the_oracles(name, rule, filtered):
    model = random_model(name, rule=rule)
    known = random_triples(model, 900)
    test = tuple(column[::25] for column in known)
    evaluation = evaluate(model, test, KnownTriples([known]), Protocol(known="excluded" if filtered else "kept"))
    assert_counts(evaluation, model, test, as_set(known) if filtered else None)


@pytest.mark.parametrize("name, rule", BY_RULE)
def test_a_triple_that_is_not_known_does_not_compete_with_itself(name, rule):
    """Of triples with the same query some are known and some are not, so these compete with each other."""
    model = random_model(name, rule=rule, coarse=name == "SimplE")
    every = random_triples(model, 900)
    every[0][:] %= 5
    known, test = tuple(column[::2] for column in every), tuple(column[::5] for column in every)
    assert_counts(evaluate(model, test, KnownTriples([known])), model, test, as_set(known))


@pytest.mark.parametrize("name, rule", BY_RULE)
def test_penalized_known_answers(name, rule):
    """0.1.2 compares log-sigmoids and lowers those of known triples by one."""
    model = random_model(name, rule=rule)
    known = random_triples(model, 3000)
    test = tuple(column[::60] for column in known)
    excluded = evaluate(model, test, KnownTriples([known]))
    penalized = evaluate(model, test, KnownTriples([known]), Protocol(known="penalized"))
    more = 0
    for side in SIDES:
        expected = []
        for head, relation, tail in zip(*test):
            answers = [
                t for t in as_set(known) if t[1] == relation and (t[2] == tail if side == "head" else t[0] == head)]
            true = log_sigmoid(score(model, head, relation, tail))
            expected.append(sum(log_sigmoid(score(model, *answer, corrupted=side)) - 1 >= true for answer in answers))
        more += sum(expected)
        np.testing.assert_array_equal(penalized.compared[side].better - excluded.compared[side].better, expected)
    assert more > 20


def log_sigmoid(x):
    return -np.logaddexp(0, -float(x))


@pytest.mark.parametrize("name", ["TransE_l1", "TransE_l2", "DistMult", "ComplEx", "SimplE", "RESCAL"])
def test_exact_ties_are_counted_as_ties(name):
    model = random_model(name, coarse=True, dim=8)
    known = random_triples(model, 300)
    test = tuple(column[::8] for column in known)
    evaluation = evaluate(model, test, KnownTriples([known]))
    assert sum(evaluation.compared[side].equal.sum() for side in SIDES) > 100
    for side, (better, equal) in assert_counts(evaluation, model, test, as_set(known)).items():
        np.testing.assert_array_equal(evaluation.ranks(side), 1 + better + equal)
        np.testing.assert_array_equal(evaluation.ranks(side, "optimistic"), 1 + better)
        np.testing.assert_array_equal(evaluation.ranks(side, "realistic"), 1 + better + equal / 2)


@pytest.mark.parametrize("name", ["DistMult", "ComplEx", "SimplE", "RESCAL"])
def test_an_emptied_model_ties_without_arithmetic(name):
    """Queries that are all 0, from rows that are 0 or products that underflow, tie with every candidate."""
    model = random_model(name, dim=8)
    model.relation[::2] = 0
    model.entity[::3] *= 1e-30
    model.relation[1::4] *= 1e-30
    known = random_triples(model, 300)
    assert_like_oracle(model, known)
    model.relation[:] = 0
    evaluation = assert_like_oracle(model, known)
    assert all(evaluation.compared[side].equal.all() and not evaluation.compared[side].close_calls for side in SIDES)


def assert_like_oracle(model, known):
    evaluation = evaluate(model, known, KnownTriples([known]))
    assert_counts(evaluation, model, known, as_set(known), tolerance=1e-50)
    return evaluation


def test_scores_beyond_simples_limits_tie():
    model = random_model("SimplE", dim=8)
    model = EmbeddingModel("SimplE", 3.0, 4, model.entity * 4, model.relation * 4)
    known = random_triples(model, 300)
    found = assert_counts(evaluate(model, known, KnownTriples([known])), model, known, as_set(known), tolerance=1e-5)
    for _, equal in found.values():
        assert (equal > 20).sum() > 20


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(NAMES),
       entities=st.integers(1, 700),
       dim=st.sampled_from([2, 6, 32, 130]),
       threads=st.integers(1, 3),
       padding=st.integers(0, 5),
       seed=st.integers(0, 5),
       rule=st.sampled_from(SCORE_RULES))
def test_the_result_does_not_depend_on_how_it_is_computed(name, entities, dim, threads, padding, seed, rule):
    import torch

    model = random_model(name, entities, dim=dim, seed=seed, rule=rule)
    known = random_triples(model, 200, seed)
    expected = None
    with threads_as_before():
        for table in (model.entity, padded(model.entity, padding), torch.from_numpy(model.entity)):
            same = EmbeddingModel(name, model.gamma, model.hidden_dim, table, model.relation, model.projection,
                                  score_rule=rule)
            _native.set_num_threads(threads)
            result = evaluate(same, known, KnownTriples([known]))
            counts = [(result.compared[side].better.tolist(), result.compared[side].equal.tolist()) for side in SIDES]
            assert expected is None or counts == expected
            expected = counts


def padded(table, columns):
    """The same rows further apart, as the store keeps them."""
    wide = np.full((len(table), table.shape[1] + columns), np.nan, np.float32)
    wide[:, : table.shape[1]] = table
    return wide[:, : table.shape[1]]


def test_float32_alone_would_rank_wrongly_here():
    """Rows far from the origin: |a|^2 + |b|^2 - 2ab cancels, and only the exact pass tells candidates apart."""
    model = random_model("TransE_l2", dim=8)
    model = EmbeddingModel("TransE_l2", 3.0, 8, (model.entity * 0.01 + 1000).astype(np.float32), model.relation * 0.01)
    known = random_triples(model, 60)
    evaluation = evaluate(model, known, KnownTriples([known]))
    for side in SIDES:
        assert evaluation.compared[side].close_calls > 1000
        better, _ = better_and_equal(model, known, side, as_set(known), tolerance=1e-6)
        assert np.mean(evaluation.compared[side].better == better) > 0.95


def test_a_diverged_model_is_refused():
    model = random_model("DistMult")
    model.entity[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        evaluate(model, (np.array([3]), np.array([0]), np.array([1])), KnownTriples([]))


@pytest.mark.parametrize("triple, message",
                         [((61, 0, 1), "head 61 of triple 1"), ((0, 5, 1), "relation 5"), ((0, 0, -1), "tail -1")])
def test_ids_outside_the_model_are_refused(triple, message):
    model = random_model("DistMult")
    triples = tuple(np.array([0, x]) for x in triple)
    with pytest.raises(InputError, match=message):
        evaluate(model, triples, KnownTriples([]))


def test_nothing_to_rank_gives_no_metrics():
    empty = tuple(np.zeros(0, np.int64) for _ in range(3))
    metrics = evaluate(random_model("DistMult"), empty, KnownTriples([])).metrics()
    assert metrics.count == 0 and np.isnan(metrics.mrr)
