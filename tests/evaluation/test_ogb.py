"""OGB's protocols by their published formulas, and against ogb itself where it is installed."""

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples
from evaluation.ranking_oracle import score

from dglke_frugal.errors import InputError
from dglke_frugal.evaluation.ogb import evaluate_challenge, evaluate_link, predict_tails, predicted_mrr


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=[False, True], ids=["smooth", "ties"])
def model(request):
    return random_model("DistMult", entities=200, dim=8, coarse=request.param)


@pytest.fixture
def lists(model, rng):
    triples = random_triples(model, 120)
    return triples, {f"{side}_neg": rng.integers(0, 200, (len(triples[0]), 30)) for side in ("head", "tail")}


def scores(model, triples, lists):
    """(positives (2n,), negatives (2n, k)), heads first, as one hands them to ogb."""
    true = [score(model, *triple) for triple in zip(*triples)]
    heads = [[score(model, c, r, t) for c in row] for row, h, r, t in zip(lists["head_neg"], *triples)]
    tails = [[score(model, h, r, c) for c in row] for row, h, r, t in zip(lists["tail_neg"], *triples)]
    return np.array(true + true, np.float32), np.array(heads + tails, np.float32)


def test_mean_rank_of_both_directions(model, lists):
    triples, candidates = lists
    positive, negative = scores(model, triples, candidates)
    better, as_good = (negative > positive[:, None]).sum(1), (negative >= positive[:, None]).sum(1)
    rank = 0.5 * (better + as_good) + 1
    metrics = evaluate_link(model, triples,
                            {key: lambda value=value: value for key, value in candidates.items()}).metrics()
    assert metrics.mrr == pytest.approx((1 / rank).mean(), rel=1e-9)
    assert (metrics.hits_at_1, metrics.hits_at_10) == ((rank <= 1).mean(), (rank <= 10).mean())


def test_the_official_link_evaluator_agrees(model, lists):
    official = pytest.importorskip("ogb.linkproppred", reason="ogb is an extra")
    import torch

    triples, candidates = lists
    positive, negative = (torch.from_numpy(array) for array in scores(model, triples, candidates))
    theirs = official.Evaluator("ogbl-wikikg2").eval({"y_pred_pos": positive, "y_pred_neg": negative})
    metrics = evaluate_link(model, triples,
                            {key: lambda value=value: value for key, value in candidates.items()}).metrics()
    assert metrics.mrr == pytest.approx(theirs["mrr_list"].mean().item(), rel=1e-6)
    assert metrics.hits_at_3 == pytest.approx(theirs["hits@3_list"].mean().item(), rel=1e-6)


@pytest.mark.parametrize("given", [True, False])
def test_ten_best_tails(model, rng, given):
    heads, relations = rng.integers(0, 200, 300), rng.integers(0, 5, 300)
    candidates = rng.integers(0, 200, (300, 25)) if given else None
    top = predict_tails(model, heads, relations, candidates)
    for row, h, r, allowed in zip(top, heads, relations, candidates if given else [range(200)] * 300):
        wanted = sorted(set(map(int, allowed)), key=lambda tail: (-np.float32(score(model, h, r, tail)), tail))[:10]
        assert row.tolist() == wanted


def test_fewer_than_ten_candidates():
    model = random_model("TransE_l2")
    top = predict_tails(model, np.array([0]), np.array([0]), np.array([[4, 7, 4]]))
    assert sorted(top[0].tolist()) == [-1] * 8 + [4, 7]


def official_example(rng):
    top = np.stack([rng.permutation(30)[:10] for _ in range(50)])
    return top, np.where(rng.random(50) < 0.5, top[np.arange(50), rng.integers(0, 10, 50)], 99)


def test_reciprocal_rank_among_ten(rng):
    top, tails = official_example(rng)
    expected = [1 / (row.tolist().index(tail) + 1) if tail in row else 0 for row, tail in zip(top, tails)]
    assert predicted_mrr(top, tails)["mrr"] == pytest.approx(np.mean(expected))
    top[3, 5] = top[3, 2]
    assert predicted_mrr(top, tails) == {"mrr": 0.0}


def test_the_official_challenge_evaluator_agrees(rng):
    official = pytest.importorskip("ogb.lsc", reason="ogb is an extra")
    top, tails = official_example(rng)
    theirs = official.WikiKG90Mv2Evaluator().eval({"h,r->t": {"t_pred_top10": top, "t": tails}})
    assert predicted_mrr(top, tails)["mrr"] == pytest.approx(theirs["mrr"], rel=1e-6)


@pytest.mark.parametrize("version", [1, 2])
def test_a_split_of_the_challenge(rng, version):
    model = random_model("TransE_l2", entities=200)
    queries = np.stack([rng.integers(0, 200, 40), rng.integers(0, 5, 40)], axis=1)
    candidates = np.stack([rng.permutation(200)[:20] for _ in range(40)])
    correct = rng.integers(0, 20, 40)
    tails = candidates[np.arange(40), correct]
    arrays = {"hr": queries,
              **({"t_candidate": candidates, "t_correct_index": correct} if version == 1 else {"t": tails})}
    expected = []
    for (h, r), tail, allowed in zip(queries, tails, candidates if version == 1 else [range(200)] * 40):
        rank = 1 + sum(score(model, h, r, c) > score(model, h, r, tail) for c in allowed)
        expected.append(1 / rank if rank <= 10 else 0)
    found = evaluate_challenge(model, {key: lambda value=value: value for key, value in arrays.items()})
    assert found["mrr"] == pytest.approx(np.mean(expected)) and found["mrr"] > 0


@pytest.mark.parametrize("ask, message", [
    (lambda model: evaluate_challenge(model, {"hr": lambda: np.zeros((1, 2), int)}), "published answers"),
    (lambda model: evaluate_link(model, ([0], [0], [1]), {}), "head_neg"),
    (lambda model: evaluate_link(model, ([0], [0], [999]), {}), "tail 999"),
    (lambda model: predict_tails(model, [0], [0], np.zeros((2, 3), int)), "one list per query"),
    (lambda model: predict_tails(model, [0], [0], np.full((1, 3), 999)), "not an entity"),
    (lambda model: predict_tails(random_model("TransR"), [0], [0]), "TransR"),
    (lambda model: predicted_mrr(np.zeros((2, 9)), np.zeros(2)), "shape")])
def test_bad_requests_are_refused(model, ask, message):
    with pytest.raises(InputError, match=message):
        ask(model)
