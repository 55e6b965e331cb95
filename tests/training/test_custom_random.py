"""Custom models that draw random numbers: the seed decides them, in each step anew."""

import random
import re
import sys

import numpy as np
import pytest
import torch
from devices import PlainDevice
from training.conftest import tables

from dglke_frugal.cli import evaluate
from dglke_frugal.cli.train import configuration
from dglke_frugal.models import find_model
from dglke_frugal.models.custom_random import random_numbers_of
from dglke_frugal.training.step.autograd_step import AutogradStep
from dglke_frugal.training.train import train

MODULE = '''
import random

import numpy
import torch
from dglke_frugal.models import TorchModel


class Dropping(TorchModel, torch.nn.Module):
    """DistMult with dropout, and nothing to keep."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.dropout = torch.nn.Dropout(0.3)

    def score(self, head, relation, tail):
        return (self.dropout(head) * relation * tail).sum(-1)


class Weighted(Dropping):
    """The same with parameters."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(20))

    def score(self, head, relation, tail):
        return super().score(head * self.weight, relation, tail)


class Mixed(TorchModel):
    """DistMult behind a matrix that is drawn when the model is made, and that no state keeps."""

    def __init__(self):
        super().__init__()
        self.matrix = torch.randn(20, 20) * random.random()
        self.shift = torch.from_numpy(numpy.random.rand(20).astype("float32"))

    def score(self, head, relation, tail):
        return (head @ self.matrix * (relation + self.shift) * tail).sum(-1)


class MixedAndWeighted(Mixed, torch.nn.Module):
    """The same with parameters."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        Mixed.__init__(self)
        self.weight = torch.nn.Parameter(torch.rand(20))

    def score(self, head, relation, tail):
        return super().score(head * self.weight, relation, tail)


class Noisy(TorchModel):
    """No Module."""

    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1) + 0.1 * torch.randn(head.shape[-1]).sum()


class Others(TorchModel):
    """Numbers of NumPy and Python."""

    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1) * (random.random() + float(numpy.random.rand()))
'''
MODELS = ("Dropping", "Weighted", "Noisy", "Others")


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "random_custom_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def flags(model, steps=20, seed=7):
    return ["--model_name", f"random_custom_models:{model}", "--max_step", steps, "--seed", seed, "--batch_size", 64,
            "--neg_sample_size", 16]


def learned(folder):
    """The saved tables, and the model's own arrays."""
    found = tables(folder)
    for file in folder.glob("*_model.npz"):
        with np.load(file) as arrays:
            found.update({name: arrays[name].tobytes() for name in arrays.files})
    return found


def seed_all(seed):
    for generator in (random.seed, np.random.seed, torch.manual_seed):
        generator(seed)


def drawn():
    return random.random(), np.random.rand(), torch.rand(1).item()


@pytest.mark.parametrize("model", MODELS)
def test_the_seed_decides_and_nothing_else_changes(runs, model):
    seed_all(1)
    one = learned(runs(*flags(model)))
    expected = drawn()
    seed_all(2)
    assert learned(runs(*flags(model))) == one
    seed_all(1)
    assert drawn() == expected  # the caller's random numbers are as they were
    assert learned(runs(*flags(model, seed=8))) != one


def test_each_step_draws_others(runs, monkeypatch):
    drawn = []
    train_step = AutogradStep._train_seeded

    def watched(step, batch, *rows):
        drawn.append(torch.rand(4).tolist())
        return train_step(step, batch, *rows)

    monkeypatch.setattr(AutogradStep, "_train_seeded", watched)
    runs(*flags("Dropping"))
    assert len({tuple(each) for each in drawn}) == 20


@pytest.mark.parametrize("model", MODELS)
def test_killed_and_resumed(runs, monkeypatch, model):
    whole = learned(runs(*flags(model, 30)))
    train_step = AutogradStep._train

    class Killed(BaseException):
        pass

    def killed(step, batch, *rows):
        if batch.step == 17:
            raise Killed
        return train_step(step, batch, *rows)

    arguments, folder = runs.arguments(*flags(model, 30), "--checkpoint_interval", 10)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(AutogradStep, "_train", killed)
        train(configuration(arguments)[1])
    torch.manual_seed(3)
    assert learned(runs.resume(folder)) == whole


@pytest.mark.parametrize("model", ["Dropping", "Weighted"])
def test_a_validation_changes_nothing(runs, model):
    """It ranks without dropout, and the next step trains with it."""
    plain = learned(runs(*flags(model)))
    validated = runs(*flags(model), "--valid", "--eval_interval", 5, "--eval_percent", 0.02)
    assert learned(validated) == plain


def test_workers_draw_each_their_own(runs, interpreter, monkeypatch):
    """Two with the same triples would else drop the same columns; and both flags and bytes are the same again."""
    monkeypatch.setattr(sys, "executable", interpreter)  # of the workers
    two = [*flags("Dropping"), "--num_proc", 2]
    one = learned(runs(*two))
    assert learned(runs(*two)) == one


def test_streams_of_ranks_differ():
    drawn = set()
    for stream in ((7, 0), (7, 1), (8, 0)):
        for step in (0, 1):
            with random_numbers_of(step, stream):
                drawn.add(tuple(torch.rand(3).tolist()))
    assert len(drawn) == 6


@pytest.mark.parametrize("model", ["Dropping", "Noisy"])
def test_on_a_device(runs, model):
    def on_device(*more):
        arguments, folder = runs.arguments(*flags(model), *more)
        train(configuration(arguments)[1], device=PlainDevice())
        return learned(folder)

    torch.manual_seed(1)
    one = on_device()
    torch.manual_seed(2)
    assert on_device("--valid", "--eval_interval", 5, "--eval_percent", 0.02) == one


@pytest.mark.parametrize("model", ["Mixed", "MixedAndWeighted"])
def test_what_a_model_draws_when_it_is_made_is_the_same_later(runs, model, capsys):
    folder = runs(*flags(model), "--test", "--eval_percent", 0.05)
    evaluate.main(["--model_path", str(folder), "--eval_percent", "0.05", "--seed", "7"])
    trained, later = re.findall("Test average MRR: (.*)", capsys.readouterr().out)
    assert trained == later
    seed_all(5)
    expected = drawn()
    seed_all(5)
    made = [find_model(f"random_custom_models:{model}", seed) for seed in (0, 0, 7)]
    assert torch.equal(made[0].matrix, made[1].matrix) and not torch.equal(made[0].matrix, made[2].matrix)
    assert drawn() == expected  # the caller's are as they were
    again = learned(runs(*flags(model)))
    assert again == learned(folder) and learned(runs(*flags(model, seed=8))) != again
