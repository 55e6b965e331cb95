"""--normalize_entities: entity rows of length 1 in training, ranking and files, with the same bits after a resume."""
import json

import numpy as np
import pytest
from training.conftest import tables

from dglke_frugal.cli import evaluate

UNIT = ["--normalize_entities", "--max_step", 30, "--log_interval", 30]
ALL = ["--loss_genre", "Softmax", "--neg_sample_size", "all", "--reciprocal"]
KINDS = {"sampled": [], "all": ALL, "all, adagrad": [*ALL, "--optimizer", "adagrad"]}


def entities(folder):
    return np.load(folder / "small_TransE_l2_entity.npy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 30])
def test_saved_entities_have_length_1_and_relations_their_own(runs, kind, steps):
    folder = runs(*UNIT, *KINDS[kind], "--max_step", steps)
    np.testing.assert_allclose(np.linalg.norm(entities(folder), axis=1), 1, rtol=1e-6)
    lengths = np.linalg.norm(np.load(folder / "small_TransE_l2_relation.npy"), axis=1)
    assert abs(lengths - 1).min() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_bits_of_a_whole_one(runs, kind):
    whole = runs(*UNIT, *KINDS[kind])
    part = runs(*UNIT, *KINDS[kind], "--max_step", 13)
    assert tables(part) != tables(whole)
    runs.resume(part, "--max_step", 30)
    assert tables(part) == tables(whole)


def test_threads_change_no_bit(runs, monkeypatch):
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append([tables(runs(*UNIT, *flags)) for flags in KINDS.values()])
    assert found[0] == found[1]


def test_rows_are_ranked_as_they_were_in_training(runs, tmp_path):
    folder = runs(*UNIT, "--test")
    evaluate.main(["--model_path", str(folder), "--json", str(tmp_path / "eval.json")])
    trained = json.loads((folder / "result.json").read_text())["test"]
    assert json.loads((tmp_path / "eval.json").read_text())["metrics"]["MRR"] == pytest.approx(trained["MRR"], abs=1e-9)


def test_rows_of_another_run_are_made_as_long(runs):
    first = runs("--max_step", 20)
    folder = runs(*UNIT, "--max_step", 0, "--init_from", first)
    assert abs(np.linalg.norm(entities(first), axis=1) - 1).max() > 0.01
    np.testing.assert_allclose(np.linalg.norm(entities(folder), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("flags", [["--num_proc", 2], ["--row_dtype", "fp16"], ["--gpu", 0], ["--flush", "p2f"],
                                   ["--optimizer", "adam"]], ids=lambda flags: flags[0])
def test_what_it_does_not_go_with(runs, flags, refused):
    with refused("--normalize_entities", flags[0]):
        runs(*UNIT, *flags)
