"""A training that diverges: one sentence, exit code 2, and the last good tables stay."""

import re

import numpy as np
import pytest
from training.conftest import tables

import dglke_frugal
from dglke_frugal.divergence import Diverged
from dglke_frugal.inference.run import Run
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder
from dglke_frugal.training.step.native_step import NativeStep
from dglke_frugal.training.run.run import TrainingRun

MODULE = '''
import torch
from dglke_frugal.models import TorchModel


class Logarithm(TorchModel):
    """NaN below 0."""

    def score(self, head, relation, tail):
        return torch.log((head * relation * tail).sum(-1))


class Constant(TorchModel):
    def __init__(self, factor):
        self.factor = float(factor)

    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1) * self.factor


class Weighted(TorchModel, torch.nn.Module):
    def __init__(self):
        torch.nn.Module.__init__(self)
        self.weight = torch.nn.Parameter(torch.ones(20))
        self.register_buffer("mask", torch.tensor(-torch.inf))  # which is no sign of anything

    def score(self, head, relation, tail):
        return (self.weight * head * relation * tail).sum(-1)
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "diverging_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.fixture
def diverges(runs, capsys):
    """A run that must diverge: returns its sentence."""

    def run(*flags, resume=None):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            runs(*flags) if resume is None else runs.resume(resume, *flags)
        output = capsys.readouterr()
        assert stopped.value.code == 2 and output.err.count("\n") == 1
        assert output.err.count("the training has diverged") == 1 and "MRR: 1.0" not in output.out
        return output.err

    return run


LOSSES = {"plain": [],
          "hinge": ["--loss_genre", "Hinge"],
          "pairwise": ["--loss_genre", "Logistic", "-pw"],
          "adversarial": ["-adv"],
          "softmax": ["--loss_genre", "Softmax"]}
MODELS = {"DistMult": [], "RotatE": ["-de"], "TransR": [], "TransE_l2": []}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_every_loss_says_so(diverges, model, loss):
    """Without regularization, whose penalty would be infinite on its own; TransE's rows are rounded to infinity."""
    rate = "1e38" if model == "TransE_l2" else "1e20"
    assert "after step" in diverges("--model_name", model, *MODELS[model], *LOSSES[loss], "-rc", 0, "--lr", rate,
                                    "--max_step", 30)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", ["Logarithm", "Constant('nan')", "Constant('inf')"])
def test_every_loss_of_a_custom_model(diverges, module, model, loss):
    flags = ["--model_name", f"diverging_models:{model}", *LOSSES[loss], "--max_step", 3]
    assert "the loss is" in diverges(*flags)


@pytest.mark.parametrize("model", ["Logarithm", "Constant('nan')", "Constant('inf')"])
def test_scores_of_a_custom_model_are_refused_by_a_ranking(diverges, module, model):
    messages = diverges("--model_name", f"diverging_models:{model}", "--max_step", 0, "--test")
    assert "score() of the model diverging_models:" in messages


def test_a_full_softmax_says_so(diverges):
    diverges("--model_name", "DistMult", "--loss_genre", "Softmax", "--neg_sample_size", "all",
             "--optimizer", "adagrad", "--lr", "1e30", "--max_step", 20, "-rc", 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_what_the_last_step_leaves(runs, diverges, processes):
    """The step after the last one would have a loss of NaN: nothing is saved."""
    flags = ["--model_name", "RESCAL", "-rc", 0, "--lr", "1e20", "--num_proc", processes]
    step = int(re.search(r"after step (\d+)", diverges(*flags, "--max_step", 30))[1])
    messages = diverges(*flags, "--max_step", step - 1)
    assert "no tables are saved" in messages and f"after step {step - 1}:" in messages
    assert not list(runs.folder.rglob("*.npy")) and not list(runs.folder.rglob("result.json"))


class Poisoned:
    """Sets one number of a run's tables after its step `at`, as a step might."""

    def __init__(self, monkeypatch, at, table, number, suffix=""):
        train = NativeStep._train

        def poisoned(step, batch, *rows):
            losses = train(step, batch, *rows)
            if batch.step == at - 1:
                self.poison()
            return losses

        monkeypatch.setattr(NativeStep, "_train", poisoned)
        make = TrainingRun._make_tables

        def make_tables(run):
            made = make(run)
            store = made.stores[table]
            array = store.state if suffix else store.embeddings
            self.poison = lambda: array.__setitem__((-1,) * array.ndim, number)
            return made

        monkeypatch.setattr(TrainingRun, "_make_tables", make_tables)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("table, suffix", [("entity", ""), ("relation", ""), ("projection", ""), ("entity", "_state")])
@pytest.mark.parametrize("flags", [[], ["--valid", "--eval_interval", 6, "--eval_percent", 0.01]])
def test_every_table_and_the_last_good_one_stays(runs, diverges, monkeypatch, table, suffix, number, flags):
    """A number that no further step may read, so that no loss tells of it: the validation does, or the end."""
    Poisoned(monkeypatch, 6, table, number, suffix)
    store = ["--flush", "none", "--batch_size", 16, "--neg_sample_size", 4, "--gamma", 200]
    messages = diverges("--model_name", "TransR", *store, "--max_step", 6, "--checkpoint_interval", 5, *flags)
    assert f"{table} table" in messages and "after step 6" in messages
    (kept,) = runs.folder.rglob("step-*")
    assert f"the tables of step 5 are kept in {kept}" in messages
    arrays = CheckpointFolder(kept.parent).last().arrays
    assert all(np.isfinite(np.load(kept / f"{name}.npy")).all() for name in arrays)


def test_what_an_earlier_part_of_the_run_has_saved_stays(runs, diverges):
    folder = runs("--max_step", 10, "--flush", "none")
    before = tables(folder)
    table = folder / "small_TransE_l2_entity.npy"
    entities = np.load(table)
    with pytest.MonkeyPatch.context() as patch:
        Poisoned(patch, 12, "entity", np.nan)
        messages = diverges("--max_step", 12, resume=folder)
    assert f"the tables of step 10 are kept in {folder}" in messages and tables(folder) == before
    assert np.array_equal(np.load(table), entities)
    runs.resume(folder, "--max_step", 15)
    assert tables(folder) == tables(runs("--max_step", 15, "--flush", "none"))


def test_parameters_of_ones_own(diverges, module, monkeypatch):
    from dglke_frugal.training.step.autograd_step import AutogradStep

    train = AutogradStep._train

    def poisoned(step, batch, *rows):
        losses = train(step, batch, *rows)
        if batch.step == 4:
            step.state_arrays()["own-sum-0"][3] = np.inf
        return losses

    monkeypatch.setattr(AutogradStep, "_train", poisoned)
    assert "own-sum-0" in diverges("--model_name", "diverging_models:Weighted", "--max_step", 5)


def test_a_mask_of_minus_infinity_is_none(runs, module):
    assert tables(runs("--model_name", "diverging_models:Weighted", "--max_step", 5, "--checkpoint_interval", 3))


def test_a_run_of_half_precision(diverges, monkeypatch):
    Poisoned(monkeypatch, 4, "relation", np.nan)
    assert "relation table" in diverges("--row_dtype", "fp16", "--max_step", 4, "--model_name", "DistMult")


def test_a_diverged_run_of_others_is_not_asked(runs):
    """Tables that another program has saved; also where their values are not looked at beforehand."""
    folder = runs("--max_step", 3)
    file = folder / "small_TransE_l2_entity.npy"
    entities = np.load(file)
    entities[5, 3] = np.nan
    np.save(file, entities)
    with pytest.raises(Diverged, match=f"row 5 of {re.escape(str(file))}"):
        dglke_frugal.load(folder)
    run = Run.load(folder, check_values=False)
    for ask in (lambda: run.tails(0, 0), lambda: run.heads(0, 0), lambda: run.nearest(0), lambda: run.score(5, 0, 1),
                lambda: run.relations(5, 1), lambda: run.rank(([0], [0], [1]))):
        with pytest.raises(Diverged):
            ask()
