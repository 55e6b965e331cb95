"""A run of a custom model is asked like any other one: it answers as the built-in model of the same formula."""

import numpy as np
import pytest
from evaluation.random_models import random_model

import dglke_frugal
from dglke_frugal.cli import predict
from dglke_frugal.inference.completion import EXEC_MODES, best_triples
from dglke_frugal.evaluation import EmbeddingModel, KnownTriples
from inference.make_run import write_run

MODULE = """
from dglke_frugal.models import TorchModel

class Dot(TorchModel):
    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)
"""


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A built-in model and a custom one with the same tables; numbers are small integers, so sums are exact."""
    (tmp_path / "asked_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    built_in = random_model("DistMult", coarse=True)
    own = EmbeddingModel("asked_models:Dot", 3.0, built_in.hidden_dim, built_in.entity, built_in.relation)
    return built_in, own


@pytest.mark.parametrize("mode", EXEC_MODES)
@pytest.mark.parametrize("with_known", [False, True])
def test_the_same_answers_as_the_built_in_model(pair, mode, with_known):
    heads = np.arange(4) if mode == "triplet_wise" else np.array([5, 9, 60])
    relations = np.array([0, 1, 1, 4])
    tails = np.array([7, 8, 9, 9]) if mode == "triplet_wise" else np.arange(61)
    known = KnownTriples([(np.array([5, 9, 0]), np.array([1, 1, 0]), np.array([8, 9, 7]))]) if with_known else None
    built_in, own = (best_triples(model, heads, relations, tails, mode, 6, known=known) for model in pair)
    for mine, theirs in zip(own, built_in):
        for column in ("heads", "relations", "tails", "scores"):
            np.testing.assert_array_equal(getattr(mine, column), getattr(theirs, column))


def test_a_run_is_asked(pair, tmp_path):
    runs = [dglke_frugal.load(write_run(tmp_path / name, model)) for name, model in zip(("theirs", "own"), pair)]
    theirs, own = runs
    np.testing.assert_array_equal(own.score(3, [0, 1], [5, 6]), theirs.score(3, [0, 1], [5, 6]))
    assert own.tails("entity 3", 1, 5) == theirs.tails("entity 3", 1, 5)
    assert own.heads(1, 3, 5) == theirs.heads(1, 3, 5) and own.relations(1, 3, 5) == theirs.relations(1, 3, 5)
    assert own.nearest(3, 5) == theirs.nearest(3, 5)
    assert own.tails(["entity 3", 60], [1, 4], 5) == theirs.tails([3, 60], [1, 4], 5)
    assert own.heads([1, 4], 3, 5) == theirs.heads([1, 4], 3, 5) and own.nearest([3, 4], 2) == theirs.nearest([3, 4], 2)


@pytest.mark.parametrize("score_func", ["none", "logsigmoid"])
def test_the_command(pair, tmp_path, score_func):
    (tmp_path / "heads").write_text("3\n9\n")
    written = []
    for name, model in zip(("theirs", "own"), pair):
        folder = write_run(tmp_path / name, model)
        predict.main(["--model_path", str(folder), "--format", "h_*_*", "--data_files", str(tmp_path / "heads"),
                      "--exec_mode", "batch_head", "--score_func", score_func, "--output", str(tmp_path / "out")])
        written.append((tmp_path / "out").read_text())
    assert written[0] == written[1] and len(written[0].splitlines()) == 21


def test_faiss_has_no_index_for_it(pair, tmp_path, refused):
    folder = write_run(tmp_path / "own", pair[1])
    (tmp_path / "tails").write_text("1\n")
    with refused("faiss has no index for a custom model"):
        predict.main(["--model_path", str(folder), "--format", "*_*_t", "--data_files", str(tmp_path / "tails"),
                      "--index", "faiss", "--output", str(tmp_path / "out")])
