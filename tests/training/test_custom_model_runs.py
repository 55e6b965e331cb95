"""Runs of a custom model: with arguments, with parameters that are kept, by several ranks."""

import json
import re
import sys

import numpy as np
import pytest
import torch
from training.conftest import tables

import dglke_frugal
from dglke_frugal.cli import evaluate
from dglke_frugal.errors import InputError
from dglke_frugal.models import find_model
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder

MODULE = '''
import torch
from dglke_frugal.models import TorchModel


class Scaled(TorchModel):
    """DistMult, or with norm=2 TransE_l2."""

    def __init__(self, scale=1.0, norm=None):
        self.scale, self.norm = 1 / (1 / scale), norm

    def score(self, head, relation, tail):
        if self.norm:
            return self.gamma - (head + relation - tail).norm(dim=-1, p=self.norm)
        return self.scale * (head * relation * tail).sum(-1)


class Weighted(TorchModel, torch.nn.Module):
    """DistMult with a weight for each dimension and a bias, both trained, and a buffer that counts."""

    def __init__(self, dim=20):
        torch.nn.Module.__init__(self)
        self.weight = torch.nn.Linear(dim, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def score(self, head, relation, tail):
        if self.training:
            self.seen += 1
        return self.weight(head * relation * tail).squeeze(-1)


class Keeping(TorchModel, torch.nn.Module):
    """DistMult with what no file of arrays can keep."""

    def __init__(self, what):
        torch.nn.Module.__init__(self)
        if what == "lazy":
            self.lazy = torch.nn.LazyLinear(1)
        else:
            self.register_buffer("kept", {
                "transposed": lambda: torch.rand(2, 3).t(), "expanded": lambda: torch.ones(1, 1).expand(3, 4),
                "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16), "sparse": lambda: torch.eye(3).to_sparse(),
                "floats": lambda: torch.ones(1)}[what]())

    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)


class KeepingMore(Keeping):
    """The same, and what is no tensor."""

    def get_extra_state(self):
        return {"steps": 3}
'''


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """The classes in a module that this process and its ranks can import."""
    (tmp_path / "kept_models.py").write_text(MODULE)
    (tmp_path / "broken_models.py").write_text("class Scaled(TorchModel\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_arguments_are_part_of_the_name(runs):
    plain = runs("--max_step", 10, "--model_name", "kept_models:Scaled")
    one = runs("--max_step", 10, "--model_name", "kept_models:Scaled(1.0)")
    three = runs("--max_step", 10, "--model_name", "kept_models:Scaled(scale=3.0)", "--test")
    entities = [np.load(next(folder.glob("*_entity.npy"))) for folder in (plain, one, three)]
    np.testing.assert_array_equal(entities[0], entities[1])
    assert np.abs(entities[0] - entities[2]).max() > 1e-3
    assert three.name == "kept_models:Scaled(scale=3.0)_small_0"
    run = dglke_frugal.load(three)
    product = np.prod([run.model.entity[1], run.model.relation[2], run.model.entity[3]], axis=0, dtype=np.float32)
    assert run.score(1, 2, 3)[0] == pytest.approx(3 * product.sum(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name, says", [
    ("kept_models:Scaled(colour=3)", "cannot make the model .*colour"),
    ("kept_models:Scaled(scale=open)", "cannot read the arguments"),
    ("kept_models:Scaled(1", "give MODULE:CLASS"),
    ("kept_models:Scaled(path='a/b')", "without a slash"),
    ("kept_models:Scaled(**{})", "cannot read the arguments|cannot make"),
    ("kept_models:Scaled()()", "give MODULE:CLASS|cannot read"),
    ("kept_models:Scaled(0.0)", "cannot make the model .*: ZeroDivisionError: float division by zero; correct its"),
    ("kept_models:Nothing", "cannot load the model"),
    ("broken_models:Scaled", "cannot load the model .*: SyntaxError: .*; give MODULE:CLASS"),
    ("..:x", "cannot load the model '..:x': give MODULE:CLASS"),
    (".kept_models:Scaled", "give MODULE:CLASS")])
def test_names_that_cannot_be_used(name, says):
    with pytest.raises(InputError, match=says):
        find_model(name)


def test_a_class_is_a_name_in_python(small, tmp_path):
    from kept_models import Scaled

    run = dglke_frugal.train(dataset="small", data_path=small, format="raw_udd_hrt", data_files=["train.txt"],
                             model_name=Scaled, hidden_dim=8, max_step=3, seed=1, preset=None,
                             save_path=tmp_path / "runs")
    assert run.config["model_name"] == "kept_models:Scaled" and len(run.tails(0, 0)) == 10


FLAGS = ["--model_name", "kept_models:Weighted", "--seed", 7, "--batch_size", 64, "--neg_sample_size", 16]


def state(folder):
    with np.load(folder / "small_kept_models:Weighted_model.npz") as stored:
        return {name: stored[name] for name in stored.files}


def test_parameters_are_trained_and_come_back(runs, capsys, tmp_path):
    start, folder = runs("--max_step", 0, *FLAGS), runs("--max_step", 60, "--test", *FLAGS)
    before, after = state(start), state(folder)
    assert before.keys() == after.keys() == {"weight.weight", "weight.bias", "seen"}
    assert np.abs(after["weight.weight"] - before["weight.weight"]).max() > 1e-3
    assert after["seen"] == 120 and before["seen"] == 0
    run = dglke_frugal.load(folder)
    product = run.model.entity[1] * run.model.relation[2] * run.model.entity[3]
    assert run.score(1, 2, 3)[0] == pytest.approx(
        float(after["weight.weight"][0] @ product + after["weight.bias"][0]), rel=1e-4, abs=1e-5)
    capsys.readouterr()
    evaluate.main(["--model_path", str(folder), "--json", str(tmp_path / "eval.json")])
    assert json.loads((tmp_path / "eval.json").read_text())["metrics"] == json.loads(
        (folder / "result.json").read_text())["test"]


def test_other_threads_are_reported(runs, monkeypatch, capsys):
    """The sums of torch depend on them in their last bits."""
    folder = runs("--max_step", 3, *FLAGS)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    runs.resume(folder, "--max_step", 5)
    assert re.search(r"earlier steps by \d+ threads and computes these by 7.*OMP_NUM_THREADS=\d+ goes on to the bit\n",
                     capsys.readouterr().out)
    runs.resume(folder, "--max_step", 6)
    assert "OMP_NUM_THREADS" not in capsys.readouterr().out


@pytest.mark.parametrize("interval", [0, 10])
def test_resumed_and_extended_to_the_bit(runs, interval):
    folder = runs("--max_step", 20, "--checkpoint_interval", interval, *FLAGS)
    assert (CheckpointFolder(folder / "checkpoints").last() is None) == (interval == 0)
    runs.resume(folder, "--max_step", 45)
    whole = runs("--max_step", 45, *FLAGS)
    assert tables(folder) == tables(whole)
    assert all(np.array_equal(value, state(whole)[name]) for name, value in state(folder).items())


def test_the_best_parameters_are_kept(runs):
    folder = runs("--max_step", 400, "--valid", "--eval_percent", 0.2, "--eval_interval", 20,
                  "--early_stop_patience", 1, "--lr", 2, *FLAGS)
    best = json.loads((folder / "result.json").read_text())["best_validation"]["step"]
    assert state(folder)["seen"] == 2 * best


def test_a_learning_rate_that_falls_is_that_of_the_parameters_too(runs):
    plateau = ["--valid", "--eval_percent", 0.2, "--eval_interval", 10, "--lr_patience", 1, "--lr", 2, *FLAGS]
    whole = runs("--max_step", 120, *plateau)
    folder = runs.resume(runs("--max_step", 73, *plateau), "--max_step", 120)
    assert tables(folder) == tables(whole)
    other = runs("--max_step", 120, *plateau, "--lr_factor", 0.9)
    for name, value in state(whole).items():
        assert np.array_equal(value, state(folder)[name])
    assert not all(np.array_equal(value, state(other)[name]) for name, value in state(whole).items())


def test_a_run_starts_from_its_state(runs):
    first = runs("--max_step", 30, *FLAGS)
    second = runs("--max_step", 0, "--init_from", first, *FLAGS)
    assert all(np.array_equal(value, state(second)[name]) for name, value in state(first).items())


@pytest.mark.parametrize("change, says", [(["--num_proc", 2], "leave --num_proc and --gpu out"),
                                          (["--gpu", 0], "leave --num_proc and --gpu out")])
def test_parameters_need_one_process_on_the_cpu(runs, tmp_path, refused, change, says):
    with refused(says):
        runs("--max_step", 3, *change, *FLAGS)
    assert not (tmp_path / "runs-1").exists()


@pytest.mark.parametrize("model, says", [
    ("Keeping('transposed')", "kept of the model .* cannot be kept with a run: its numbers do not lie one after"),
    ("Keeping('expanded')", "do not lie one after the other; add .contiguous"),
    ("Keeping('bfloat16')", "NumPy has no array of torch.bfloat16, .*; make it float32"),
    ("Keeping('sparse')", "NumPy has no array of .*sparse_coo.*; make it float32"),
    ("Keeping('lazy')", "lazy.weight of the model .*: it has no shape yet; give its size"),
    ("KeepingMore('floats')", "_extra_state of the model .*: it is dict; keep numbers in parameters and buffers")])
def test_a_state_that_cannot_be_kept_is_refused_before_the_run(runs, tmp_path, refused, model, says):
    with refused(says):
        runs("--max_step", 3, "--model_name", f"kept_models:{model}")
    assert not (tmp_path / "runs-1").exists()


def test_a_state_that_is_gone_or_of_another_class(runs):
    folder = runs("--max_step", 3, *FLAGS)
    file = folder / "small_kept_models:Weighted_model.npz"
    with open(file, "wb") as stream:
        np.savez(stream, other=np.zeros(3))
    with pytest.raises(InputError, match="does not fit the class kept_models:Weighted as it is now: .*weight.weight"):
        dglke_frugal.load(folder)
    file.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot read .*_model.npz"):
        dglke_frugal.load(folder)
    file.unlink()
    with pytest.raises(InputError, match="cannot read .*_model.npz"):
        dglke_frugal.load(folder)


def test_several_ranks_train_what_the_built_in_model_does(runs, interpreter, monkeypatch):
    monkeypatch.setattr(sys, "executable", interpreter)  # of the ranks
    flags = ["--max_step", 30, "--num_proc", 2, "--batch_size", 64, "--neg_sample_size", 16]
    own = runs(*flags, "--model_name", "kept_models:Scaled(norm=2)", "--test")
    built_in = runs(*flags, "--model_name", "TransE_l2", "--test")
    for kind in ("entity", "relation"):
        mine, theirs = (np.load(next(folder.glob(f"*_{kind}.npy"))) for folder in (own, built_in))
        np.testing.assert_allclose(mine, theirs, atol=2e-4)
    mine, theirs = (json.loads((folder / "result.json").read_text())["test"] for folder in (own, built_in))
    assert mine["MR"] == pytest.approx(theirs["MR"], rel=0.01)
    store = ["--flush", "sync", "--lookahead", 2, "--cache_ratio", 0.3]
    again = runs(*flags, *store, "--model_name", "kept_models:Scaled(norm=2)")
    assert tables(again) == tables(own)
