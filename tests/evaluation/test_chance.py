"""The MRR of random ranks, against sums and against drawn ranks; who is told that a model is near it."""

import json

import numpy as np
import pytest

from dglke_frugal.evaluation import KnownTriples
from dglke_frugal.evaluation.chance import candidate_counts, chance, random_mrr
from training.conftest import runs, small  # noqa: F401 (fixtures)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 40943])
def test_the_expectation_is_the_mean_of_reciprocals(n):
    assert random_mrr([n]) == pytest.approx(np.mean(1 / np.arange(1, n + 1)), rel=2e-3 if n < 3 else 1e-5)


def test_known_answers_do_not_compete():
    triples = np.array([[0, 0, 1], [0, 0, 2], [0, 0, 3], [4, 1, 1], [2, 0, 1]])
    columns = tuple(triples.T)
    asked = [*triples[[0, 3]].tolist(), [0, 0, 5], [3, 0, 3]]  # two of them are not known
    facts = {tuple(triple) for triple in triples.tolist()}
    expected = [10 - sum((h, r, t) in facts and h != triple[0] for h in range(10))
                for triple in asked for _, r, t in [triple]]
    expected += [10 - sum((h, r, t) in facts and t != triple[2] for t in range(10))
                 for triple in asked for h, r, _ in [triple]]
    asked = tuple(np.array(asked).T)
    counted = candidate_counts(asked, 10, KnownTriples([columns]))
    assert counted.tolist() == expected == [9, 10, 10, 9, 8, 10, 7, 10]
    assert candidate_counts(asked, 10, None).tolist() == [10] * 8


@pytest.mark.parametrize(
    "mrr, entities, near",
    [
        (0.0045, 40943, True),  # TransE_l2 on wn18rr by DGL-KE's defaults, after 80,000 steps
        (0.02, 40943, False),
        (0.0003, 40943, True),
        (0.06, 100, True),
        (0.12, 100, False),
        (0.01, 2_500_000, False),  # thousands of times chance: little, and not nothing
    ])
def test_who_is_near(mrr, entities, near):
    assert chance(mrr, np.array([entities])).near is near


def test_a_run_that_has_learned_nothing_says_so(runs, capsys):  # noqa: F811
    folder = runs("--max_step", 1, "--lr", "1e-9", "--test")
    messages = capsys.readouterr().out
    (line,) = [line for line in messages.splitlines() if "near chance" in line]
    found = json.loads((folder / "result.json").read_text())
    assert found["chance"]["near"] and found["chance"]["of"] == "test" and "test MRR" in line
    assert found["test"]["MRR"] < 5 * found["chance"]["MRR"] and "dglke_frugal search" in line
    runs("--max_step", 1, "--lr", "1e-9", "--valid", "--eval_interval", 1)
    assert "validation MRR" in [line for line in capsys.readouterr().out.splitlines() if "near chance" in line][0]


def test_a_run_that_has_learned_is_not_told(runs, capsys):  # noqa: F811
    runs("--max_step", 600, "--test", "--model_name", "DistMult", "--lr", 0.3)
    assert "near chance" not in capsys.readouterr().out
