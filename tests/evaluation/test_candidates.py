"""Sampled and given candidates."""

import numpy as np
import pytest
from evaluation.random_models import NAMES, random_model, random_triples
from evaluation.ranking_oracle import better_and_equal

from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import SIDES, EmbeddingModel, KnownTriples, Protocol, Sampling, evaluate
from dglke_frugal.evaluation.candidates import draw, rank_against_given


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group, by_degree, known", [(8, False, "excluded"), (1, False, "kept"), (7, True, "kept")])
def test_counts_equal_the_oracles(name, group, by_degree, known):
    model = random_model(name)
    triples = random_triples(model, 2000)
    test = tuple(column[::60] for column in triples)
    sampling = Sampling(20, group, by_degree, seed=3)
    evaluation = evaluate(model, test, KnownTriples([triples]), Protocol(known=known, sampling=sampling))
    everything = {tuple(map(int, triple)) for triple in zip(*triples)} if known == "excluded" else None
    for side in SIDES:
        for i, triple in enumerate(zip(*test)):
            candidates = draw(sampling, side, len(model.entity), i // group, 1)[0].tolist()
            if by_degree:
                own = test[0 if side == "head" else 2][i // group * group : (i // group + 1) * group]
                candidates += np.resize(own, group).tolist()
            better, equal = better_and_equal(model, [[x] for x in triple], side, everything, candidates, 1e-9)
            assert evaluation.compared[side].better[i] == better[0], (side, i)
            assert evaluation.compared[side].equal[i] == equal[0], (side, i)


@pytest.mark.parametrize("name", ["TransE_l2", "ComplEx", "TransR"])
def test_queries_with_more_known_answers_than_candidates(name, monkeypatch):
    """Half of all heads are known for one tail, which most of the test asks about, in blocks of few groups."""
    monkeypatch.setattr("dglke_frugal.evaluation.candidates.GATHERED_BYTES", 1 << 14)
    model = random_model(name)
    entities = len(model.entity)
    hub = (np.arange(0, entities, 2), np.zeros(-(-entities // 2), int), np.ones(-(-entities // 2), int))
    triples = tuple(np.concatenate(columns) for columns in zip(hub, random_triples(model, 300)))
    test = tuple(np.concatenate([column[: len(hub[0]) : 3], column[-20:]]) for column in triples)
    sampling = Sampling(10, 4, seed=5)
    assert len(hub[0]) > sampling.count
    evaluation = evaluate(model, test, KnownTriples([triples]), Protocol(sampling=sampling))
    everything = {tuple(map(int, triple)) for triple in zip(*triples)}
    for side in SIDES:
        for i, triple in enumerate(zip(*test)):
            candidates = draw(sampling, side, entities, i // 4, 1)[0].tolist()
            better, equal = better_and_equal(model, [[x] for x in triple], side, everything, candidates, 1e-9)
            assert evaluation.compared[side].better[i] == better[0], (side, i)
            assert evaluation.compared[side].equal[i] == equal[0], (side, i)


def test_simples_limits_with_sampled_candidates():
    model = random_model("SimplE", dim=8)
    model = EmbeddingModel("SimplE", 3.0, 4, model.entity * 4, model.relation * 4)
    test = random_triples(model, 40)
    counts = [evaluate(model, test, None, Protocol(known="kept", sampling=Sampling(15, group, seed=1))).compared
              for group in (1, 5)]
    assert (counts[0]["tail"].equal > 5).any()
    for compared, group in zip(counts, (1, 5)):
        for i, triple in enumerate(zip(*test)):
            candidates = draw(Sampling(15, group, seed=1), "tail", len(model.entity), i // group, 1)[0]
            better, equal = better_and_equal(model, [[x] for x in triple], "tail", None, candidates, 1e-5)
            assert (compared["tail"].better[i], compared["tail"].equal[i]) == (better[0], equal[0])


def test_the_same_seed_draws_the_same_candidates_however_they_are_asked_for():
    sampling = Sampling(5, seed=7)
    together = draw(sampling, "head", 1000, 0, 700)
    apart = np.concatenate([draw(sampling, "head", 1000, first, 100) for first in range(0, 700, 100)])
    np.testing.assert_array_equal(together, apart)
    assert not np.array_equal(together, draw(sampling, "tail", 1000, 0, 700))
    assert not np.array_equal(together, draw(Sampling(5, seed=8), "head", 1000, 0, 700))
    assert together.min() >= 0 and together.max() < 1000 and len(np.unique(together)) > 900


@pytest.mark.parametrize("name, rule", [("TransE_l2", "textbook"), ("ComplEx", "textbook"), ("TransR", "textbook"),
                                        ("TransR", "dglke"), ("RESCAL", "textbook")])
def test_given_candidates(name, rule):
    model = random_model(name, rule=rule)
    test = random_triples(model, 30)
    candidates = np.random.default_rng(0).integers(0, len(model.entity), (len(test[0]), 9))
    if rule == "dglke":  # it scores a corrupted tail unlike a true one, so the true tail would not tie with itself
        candidates = np.where(candidates == test[2][:, None], (candidates + 1) % len(model.entity), candidates)
    compared = rank_against_given(model, "tail", test, candidates)
    for i, triple in enumerate(zip(*test)):
        others = [c for c in candidates[i] if c != triple[2]]
        better, equal = better_and_equal(model, [[x] for x in triple], "tail", None, others, 1e-9)
        itself = len(candidates[i]) - len(others)
        assert (compared.better[i], compared.equal[i]) == (better[0], equal[0] + itself)


@pytest.mark.parametrize("candidates, message", [
    (np.zeros((2, 3), int), "one list of candidates per triple"),
    (np.full((1, 3), 61), "not an entity"),
    (np.full((1, 3), -1), "not an entity")])
def test_bad_lists_are_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        rank_against_given(random_model("DistMult"), "head", tuple(np.zeros(1, int) for _ in range(3)), candidates)


def test_contradictions_are_refused():
    with pytest.raises(InputError, match="no_eval_filter"):
        Protocol(sampling=Sampling(5, by_degree=True))
    with pytest.raises(InputError, match="at least 1"):
        Sampling(0)
    with pytest.raises(InputError, match="ties"):
        Protocol(ties="hopeful")


@pytest.mark.parametrize("count", [61, 10_000])
@pytest.mark.parametrize("name", ["TransE_l2", "TransR"])
@pytest.mark.parametrize("by_degree, known", [(False, "excluded"), (False, "kept"), (True, "kept")])
def test_samples_of_as_many_as_there_are_are_all_each_once(name, count, by_degree, known):
    model = random_model(name)
    triples = random_triples(model, 300)
    test, filter = tuple(column[::10] for column in triples), KnownTriples([triples])
    sampled = evaluate(model, test, filter, Protocol(known=known, sampling=Sampling(count, 8, by_degree)))
    whole = evaluate(model, test, filter, Protocol(known=known))
    assert sampled.protocol == whole.protocol and sampled.metrics() == whole.metrics()
    assert max(sampled.ranks(side).max() for side in SIDES) <= 61
    fewer = Protocol(known="kept", sampling=Sampling(60))
    assert evaluate(model, test, None, fewer).protocol == fewer
