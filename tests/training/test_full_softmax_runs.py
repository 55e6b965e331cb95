"""Whole runs by a softmax over all entities: they learn, go on where they were, and say what does not go together."""
import json

import pytest
from training.conftest import tables

from dglke_frugal.cli.train import main
from dglke_frugal.training.plan.memory_plan import GraphSize, plan_memory
from dglke_frugal.options import TrainConfig

ALL = ["--model_name", "ComplEx", "--loss_genre", "Softmax", "--neg_sample_size", "all", "--batch_size", 128,
       "--max_step", 40, "--log_interval", 20, "-rc", 0.01]
DISTANCES = ALL[2:]  # of models that are named with it
KINDS = {"1vsall": [],
         "kvsall": ["--labels", "kvsall", "--label_smoothing", 0.1],
         "kvsall with inverses": ["--labels", "kvsall", "--label_smoothing", 0.1, "--reciprocal"],
         "adam": ["--optimizer", "adam", "--lr", 0.01, "--entity_dropout", 0.3, "--relation_dropout", 0.2],
         "adagrad": ["--optimizer", "adagrad", "--regularizer", "n3"],
         "relations": ["--relation_prediction", 0.5, "--reciprocal", "--optimizer", "adam", "--relation_dropout", 0.2]}


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_runs_have_the_same_bits(runs, kind):
    whole = runs(*ALL, *KINDS[kind])
    part = runs(*ALL, *KINDS[kind], "--max_step", 17)
    runs.resume(part, "--max_step", 40)
    assert tables(part) == tables(whole)


@pytest.mark.parametrize("flags", [["--model_name", "TransE_l2", "--reciprocal"], ["--model_name", "TransE_l1"],
                                   ["--model_name", "RotatE", "-de", "--labels", "kvsall", "--reciprocal"],
                                   ["--model_name", "SimplE", "-de", "-dr", "--labels", "kvsall"],
                                   ["--model_name", "ComplEx", "--labels", "kvsall", "--loss_genre", "BCE",
                                    "--lr", 0.5]],
                         ids=lambda flags: flags[1])
def test_distances_and_binary_labels_resume_to_the_same_bits_and_learn(runs, flags):
    flags = [*DISTANCES, *flags, "-rc", 0, "--max_step"]
    whole = runs(*flags, 60, "--test")
    part = runs(*flags, 17)
    runs.resume(part, "--max_step", 60)
    assert tables(part) == tables(whole)
    start = runs(*flags, 0, "--test")
    found, before = (json.loads((each / "result.json").read_text())["test"]["MRR"] for each in (whole, start))
    assert found > 1.5 * before


@pytest.mark.parametrize("kind", ["1vsall", "adagrad"])
def test_checkpoints_hold_the_optimizer(runs, kind):
    whole = runs(*ALL, *KINDS[kind])
    part = runs(*ALL, *KINDS[kind], "--max_step", 20, "--checkpoint_interval", 10, "--valid", "--eval_interval", 10)
    runs.resume(part, "--max_step", 40)
    assert tables(part) == tables(whole)


def test_a_warm_start_leaves_another_optimizer_s_states(runs):
    first = runs(*ALL, "--optimizer", "adagrad")
    for optimizer, kept in (("adagrad", True), ("adam", False)):
        folder = runs(*ALL, "--optimizer", optimizer, "--init_from", first, "--max_step", 3)
        assert json.loads((folder / "result.json").read_text())["init_from"]["optimizer_states"] == kept


def test_it_learns(runs):
    folder = runs(*ALL, "--max_step", 400, "--hidden_dim", 32, "--lr", 0.1, "--optimizer", "adagrad", "--test")
    sampled = runs("--model_name", "ComplEx", "--max_step", 400, "--hidden_dim", 32, "--lr", 0.1, "--test")
    found, other = (json.loads((each / "result.json").read_text())["test"]["MRR"] for each in (folder, sampled))
    assert found > other


def test_sampled_softmax_learns(runs):
    flags = ["--max_step", 400, "--hidden_dim", 32, "--lr", 0.1, "--valid", "--eval_interval", 200]
    folder = runs(*flags, "--loss_genre", "Softmax")
    untrained = runs(*flags, "--loss_genre", "Softmax", "--lr", 1e-9)
    found, start = (json.loads((each / "result.json").read_text())["validation"]["MRR"] for each in (folder, untrained))
    assert found > 2 * start


def test_relation_prediction_has_a_line(runs, capsys):
    folder = runs(*ALL, "--relation_prediction", 0.5, "--checkpoint_interval", 20)
    messages = capsys.readouterr().out
    losses = [float(line.split()[-1]) for line in messages.splitlines() if "average relation_loss" in line]
    assert len(losses) == 2 and losses[1] < losses[0]
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["train/relation_loss"] for line in logged if "train/loss" in line] == pytest.approx(losses, rel=1e-3)


@pytest.mark.parametrize("flags, messages", [
    (["--model_name", "TransR"], "TransE_l1, TransE_l2, and not for TransR; give a number of negatives"),
    (["--model_name", "TransE_l2", "--relation_prediction", 1], "RESCAL, SimplE, and not for TransE_l2"),
    (["--loss_genre", "BCE"], "add --labels kvsall"),
    (["--loss_genre", "BCE", "--labels", "kvsall", "-adv"], "leave it out"),
    (["--loss_genre", "BCE", "--labels", "kvsall", "--gpu", 0], "trains on the CPU"),
    (["--loss_genre", "Logsigmoid"], "add --loss_genre Softmax"),
    (["-adv"], "leave it out"),
    (["-pw"], "--pairwise does not go with --loss_genre Softmax"),
    (["--num_proc", 2], "one process"),
    (["--flush", "p2f"], "leave --flush"),
    (["--cache_ratio", 0.1], "leave --flush"),
    (["--neg_deg_sample"], "leave it out"),
    (["--model_name", "DistMult", "--regularizer", "n3"], "complex numbers"),
    (["--entity_dropout", 1], "below 1"),
    (["--label_smoothing", 0.1], "--labels kvsall"),
    (["--relation_prediction", -1], "between 0 and"),
    (["--relation_prediction", 1, "--labels", "kvsall"], "leave one of the two out"),
    (["--neg_sample_size", 64, "--relation_prediction", 1], "--neg_sample_size all"),
    (["--neg_sample_size", "most"], "neither a number nor all"),
    (["--neg_sample_size", 64, "--regularizer", "n3"], "--neg_sample_size all"),
    (["--neg_chunk_size", 16], "leave it out"),
    (["--neg_sample_size", 64, "--entity_dropout", 0.1], "--neg_sample_size all")])
def test_what_does_not_go_together(runs, flags, messages, refused):
    arguments, folder = runs.arguments(*ALL, *flags)
    with refused(messages):
        main(arguments)
    assert not folder.exists()


def test_a_table_that_does_not_fit_the_device():
    flags = {"neg_sample_size": "all", "loss_genre": "Softmax", "model_name": "ComplEx", "hidden_dim": 1000,
             "gpu": [0], "optimizer": "adagrad"}
    needed = {}
    for optimizer in ("row_adagrad", "adagrad", "adam"):
        plan = plan_memory(TrainConfig.from_flags({**flags, "optimizer": optimizer}), GraphSize(10**6, 500, 10**7))
        needed[optimizer] = plan.bytes("device")
        floats = 1000 * {"row_adagrad": 1, "adagrad": 2, "adam": 3}[optimizer]
        assert plan.parts["device"]["entity table"] >= 10**6 * floats * 4
        assert plan.parts["device"]["training step"] < 10**6 * 1024 * 4 / 10  # far from a score for each pair
    assert needed["row_adagrad"] < needed["adagrad"] < needed["adam"]
    plan = plan_memory(TrainConfig.from_flags({**flags, "relation_prediction": 1.0}), GraphSize(10**6, 500, 10**7))
    assert needed["adagrad"] < plan.bytes("device") < needed["adagrad"] + 2**27
