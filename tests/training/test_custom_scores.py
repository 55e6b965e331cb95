"""A custom score function that gives what is no score: a sentence that says what, in training and in ranking."""
import re
import sys

import pytest
import torch
from training.conftest import FLAGS

from dglke_frugal.cli.train import main
from dglke_frugal.errors import InputError
from dglke_frugal.models import TorchModel
from dglke_frugal.models.custom_scores import custom_scores


def product(head, relation, tail):
    return (head * relation * tail).sum(-1)


WRONG = {
    "keepdim": (lambda *rows: product(*rows)[..., None], r"returns shape \(.*1\) for .*; return one score for each"),
    "no sum": (lambda h, r, t: h * r * t, r"returns shape \(.*\) for head .*; return one score for each triple"),
    "a number": (lambda h, r, t: (h * r * t).sum(), r"returns shape \(\) for"),
    "heads alone": (lambda h, r, t: h.sum(-1), ""),  # right in shape where all rows have one
    "NumPy": (lambda *rows: product(*rows).detach().numpy(), "returns ndarray; return a tensor"),
    "nothing": (lambda *rows: None, "returns NoneType; return a tensor"),
    "a list": (lambda *rows: [product(*rows)], "returns list; return a tensor"),
    "integers": (lambda *rows: product(*rows).long(), "returns torch.int64 numbers; return float32"),
    "truth": (lambda *rows: product(*rows) > 0, "returns torch.bool numbers; return float32"),
    "complex": (lambda *rows: product(*rows) + 0j, "returns torch.complex64 numbers; return float32"),
    "another device": (lambda *rows: product(*rows).to("meta"), "returns scores on meta for rows on cpu"),
    "an error": (lambda h, r, t: h @ torch.zeros(3, 3), r"failed in .*test_custom_scores.py, line \d+: RuntimeError: "),
    "its own error": (lambda h, r, t: {}["weight"], r"failed in .*test_custom_scores.py, line \d+: KeyError: 'weight'"),
    "rows that it changes": (lambda h, r, t: product(h.mul_(2), r, t), "changes head in place"),
    "rows of both": (lambda h, r, t: product(h.neg_(), r, t.neg_()), "changes head and tail in place"),
    "views of rows": (lambda h, r, t: product(h, r, t[..., :1].neg_()), "changes tail in place"),
    "two arguments": (lambda h, r: h, "failed: TypeError: .*takes 2 positional arguments")}


class Wrong(TorchModel):
    name = "Wrong"

    def __init__(self, kind="keepdim"):
        self.score = WRONG[kind][0]


class Constant(TorchModel):
    def score(self, head, relation, tail):
        return product(head, relation, tail).detach()


class Hidden(TorchModel):
    """Overwrites what its gradient needs."""

    def score(self, head, relation, tail):
        return (head * relation * tail).exp().add_(1).sum(-1)


class FailsInRanking(TorchModel):
    def score(self, head, relation, tail):
        assert torch.is_grad_enabled(), "no gradients"
        return product(head, relation, tail)


class Nothing(TorchModel):
    """Has no score."""


class Wide(TorchModel):
    """In float64, as where a part of it is."""

    def score(self, head, relation, tail):
        return product(head.double(), relation, tail)


class Narrow(TorchModel):
    def score(self, head, relation, tail):
        return product(head, relation, tail).half()


class Plain(TorchModel):
    def score(self, head, relation, tail):
        return product(head, relation, tail)


@pytest.fixture
def train(monkeypatch, small, tmp_path, capsys):
    """Trains and ranks with a model of this file; returns what is reported."""
    monkeypatch.setitem(sys.modules, "wrong_models", sys.modules[__name__])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(model, *flags):
        capsys.readouterr()
        main([*FLAGS, "--data_path", str(small), "--save_path", str(tmp_path / "runs"), "--model_name",
              f"wrong_models:{model}", "--test", "--eval_percent", "0.01", *map(str, flags)])
        return capsys.readouterr()

    return run


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "heads alone"])
def test_what_is_no_score(kind):
    with pytest.raises(InputError, match=rf"score\(\) of the model Wrong {WRONG[kind][1]}"):
        custom_scores(Wrong(kind), *(torch.ones(4, 6) for _ in range(3)))


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("kind", ["keepdim", "its own error"])
def test_it_is_said_of_a_run(train, refused, kind, steps):
    with refused(rf"score\(\) of the model wrong_models:Wrong\('{kind}'\) {WRONG[kind][1]}"):
        train(f"Wrong('{kind}')", "--max_step", steps)


def test_scores_without_a_gradient(train, refused):
    with refused("scores without a gradient"):
        train("Constant", "--max_step", 3)
    assert "Test average MRR" in train("Constant", "--max_step", 0).out


def test_a_score_that_fails_in_ranking_is_found_before_the_training(train, refused, monkeypatch):
    """Of which nothing would be saved."""
    monkeypatch.setattr("dglke_frugal.training.run.run.TrainingLoop", lambda *given: pytest.fail("it was trained"))
    with refused(r"score\(\) of the model wrong_models:FailsInRanking failed in .*AssertionError: no gradients"):
        train("FailsInRanking", "--max_step", 3)


def test_a_model_without_a_score(train, refused):
    with refused("the model 'wrong_models:Nothing' has no score(self, head, relation, tail); define it"):
        train("Nothing", "--max_step", 3)


@pytest.mark.parametrize("device", [[], ["--row_dtype", "fp16"]])
def test_scores_that_cannot_be_differentiated(train, refused, device):
    with refused("score() of the model wrong_models:Hidden has no gradient: RuntimeError: "):
        train("Hidden", "--max_step", 3, *device)
    assert "Test average MRR" in train("Hidden", "--max_step", 0).out


def test_rows_of_inference_mode_are_scored():
    with torch.inference_mode():
        rows = torch.ones(4, 6), torch.ones(4, 6), torch.ones(4, 6)
        assert custom_scores(Plain(), *rows).tolist() == [6.0] * 4


@pytest.mark.parametrize("model", ["Wide", "Narrow"])
def test_other_floating_point_numbers_are_taken(train, model):
    ranks = [float(re.search("Test average MR: (.*)", train(each, "--max_step", 20).out)[1])
             for each in (model, "Plain")]
    assert ranks[0] == pytest.approx(ranks[1], rel=0.05)


def test_the_error_has_the_users_own_behind_it():
    rows = torch.ones(4, 1, 6), torch.ones(4, 1, 6), torch.ones(1, 5, 6)
    with pytest.raises(InputError) as raised:
        custom_scores(Wrong("its own error"), *rows)
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(InputError, match=r"shape \(4, 1\) .*shape \(4, 5\)"):
        custom_scores(Wrong("heads alone"), *rows)
