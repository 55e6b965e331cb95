"""What stays as it is in all parts of a run, as its numbers depend on it: flags, data, the code of a custom model."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from small_graph import write_graph
from training.conftest import logged, result, tables

from dglke_frugal.cli.train import main
from dglke_frugal.options import OPTIONS, TrainConfig, numbers_flags
from dglke_frugal.data import load_graph
from dglke_frugal.data.fingerprint import Fingerprint
from dglke_frugal.models import code_checksum
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder
from dglke_frugal.training.run.ranker import Ranker

DROPPED = {"lr_patience": 2, "valid": True, "eval_interval": 5}


def of(**flags):
    return numbers_flags(TrainConfig.from_flags(flags))


@pytest.mark.parametrize("name, one, other, where", [
    ("exclude_positive", False, True, {}),
    ("row_dtype", "fp16", "fp32", {}),
    ("normalize_entities", True, False, {}),
    ("subsampling", "base", "uniq", {}),
    ("init", "normal", "xavier", {}),
    ("relation_prediction", 0.5, 0.4, {"neg_sample_size": "all"}),
    ("lr_factor", 0.5, 0.3, {"lr_decay_at": [7]}),
    ("lr_factor", 0.5, 0.3, DROPPED),
    ("eval_interval", 5, 6, {"lr_patience": 2, "valid": True}),
    ("eval_percent", 1, 0.5, DROPPED),
    ("eval_percent", 1, 0.5, {"early_stop_patience": 2, "valid": True}),
    ("neg_sample_size_eval", -1, 5, DROPPED),
    ("batch_size_eval", 8, 4, {**DROPPED, "neg_sample_size_eval": 5}),
    ("neg_deg_sample_eval", False, True, {**DROPPED, "neg_sample_size_eval": 5, "no_eval_filter": True}),
    ("no_eval_filter", False, True, DROPPED),
    ("early_stop_patience", 0, 2, {"valid": True}),
    ("lr_decay_at", [], [100_000], {}),  # after --max_step, which a later part may raise
    ("margin", 1, 2, {"loss_genre": "Hinge"}),
    ("adversarial_temperature", 1, 2, {"neg_adversarial_sampling": True}),
    ("regularization_norm", 3, 0, {"regularizer": "n3"}),
    ("matmul", "fp32", "tf32x3", {"gpu": [0]}),
    ("num_proc", 2, 4, {}),
    ("gpu", [0, 1], [0, 1, 2], {}),
    ("gpu", [-1], [0], {"model_name": "TransR"}),
    ("gpu", [-1], [0], {"neg_sample_size": "all"}),
    ("partition", "random", "metis", {"num_proc": 2}),
    ("rel_part", False, True, {"num_proc": 2}),
    ("parallel", "rows", "columns", {"gpu": [0, 1]}),
    ("score_rule", "textbook", "dglke", {"model_name": "RESCAL"})])
def test_numbers_depend_on(name, one, other, where):
    first, second = of(**where, **{name: one}), of(**where, **{name: other})
    assert first.get(name) != second.get(name)


@pytest.mark.parametrize("name, one, other, where", [
    ("lr_factor", 0.5, 0.3, {}),
    ("eval_percent", 1, 0.5, {"valid": True}),
    ("neg_sample_size_eval", -1, 5, {"test": True}),
    ("batch_size_eval", 8, 4, DROPPED),
    ("margin", 1, 2, {}),
    ("lr_decay_at", [3, 5], [5, 3], {}),
    ("max_step", 10, 20, {"lr_decay_at": [15]}),
    ("gpu", [-1], [0], {"matmul": "fp32"}),  # the same bits
    ("gpu", [0], [1], {"model_name": "TransR"}),
    ("matmul", "fp32", "tf32x3", {}),
    ("partition", None, "metis", {}),
    ("gamma", 12, 5, {"model_name": "DistMult", "init": "normal"}),
    ("data_path", "a", "b", {}),  # data are known by their content
])
def test_numbers_do_not_depend_on(name, one, other, where):
    assert of(**where, **{name: one}) == of(**where, **{name: other})


def test_gamma_without_a_margin_changes_no_bit(runs):
    flags = ["--model_name", "DistMult", "--init", "normal", "--max_step", 5]
    assert tables(runs(*flags)) == tables(runs(*flags, "--gamma", 3))


def test_every_flag_that_always_changes_numbers_is_there_with_its_value():
    everything = of(loss_genre="Hinge", neg_adversarial_sampling=True, model_name="TransR", num_proc=2, lr_decay_at=[3],
                    seed=1, neg_chunk_size=3, init_scale=0.1, init_from="x", partition="metis", early_stop_patience=1)
    missing = {name for name, each in OPTIONS.items() if each.changes.words == "yes"} - everything.keys()
    assert missing == {"lr_patience"}


# ---- data


@pytest.fixture
def data(tmp_path):
    return write_graph(tmp_path / "data", weights=True)


def trained(runs, *flags):
    """The folder of a run of another graph than that of `runs`."""
    arguments, folder = runs.arguments(*flags)
    main(arguments)
    return folder.with_name("DistMult_mine_0")


PATIENT = ["--valid", "--eval_interval", 2, "--lr_patience", 2]
STOPS = ["--valid", "--eval_interval", 2, "--early_stop_patience", 9]


@pytest.mark.parametrize("flags, file, says", [
    ([], "train.txt", "other weights of the training triples"),
    ([], "entities.tsv", "other names of entities"),
    ([], "relations.tsv", "other names of relations"),
    (PATIENT, "valid.txt", "other validation triples"),
    (PATIENT, "test.txt", "other test triples"),  # which are left out of the candidates
    (STOPS, "valid.txt", "other validation triples"),
    ([*PATIENT, "--no_eval_filter"], "test.txt", None),
    (["--valid", "--eval_interval", 2], "valid.txt", None),
    ([], "test.txt", None)])
def test_data_that_change_numbers_are_refused(runs, data, refused, flags, file, says):
    """In each file something changes that leaves the ids of the training triples as they are."""
    graph = ["--dataset", "mine", "--format", "udd_hrt", "--data_path", data, "--data_files", "entities.tsv",
             "relations.tsv", "train.txt", "valid.txt", "test.txt", "--has_edge_importance", "--model_name", "DistMult"]
    sizes = ["--batch_size", 8, "--neg_sample_size", 4, *flags]
    expected = tables(trained(runs, *graph, *sizes, "--max_step", 8))
    folder = trained(runs, *graph, *sizes, "--max_step", 4)
    path = data / file
    lines = path.read_text().splitlines(keepends=True)
    if file == "train.txt":
        lines = [line.rpartition("\t")[0] + "\t7\n" for line in lines]
    elif file.endswith(".tsv"):
        lines[1] = lines[1].rstrip("\n") + "x\n"
    else:
        lines[0] = "3\t2\t4\t1\n"
    path.write_text("".join(lines))
    if says is None:
        assert tables(runs.resume(folder, "--max_step", 8)) == expected
        return
    with refused(f"{says}.*--data_files"):
        runs.resume(folder, "--max_step", 8)


def test_weights_are_known_by_their_content_and_only_where_they_are(data):
    def fingerprint(weighted):
        return Fingerprint.of(load_graph("mine", data, "udd_hrt", ["entities.tsv", "relations.tsv", "train.txt"],
                                         has_edge_importance=weighted))

    plain, weighted = fingerprint(False), fingerprint(True)
    assert plain.training_weights is None and weighted.training_weights is not None
    assert plain.difference(weighted) == weighted.difference(plain) == ""  # dglke_eval may leave weights out
    assert "other weights" in replace(weighted, training_weights=1).difference(weighted)


# ---- what is drawn for a validation


def test_the_share_that_is_ranked_is_drawn_by_the_seed(graphs):
    """In each part of a run and each of its validations the same triples."""
    files = ["train.txt", "valid.txt", "test.txt"]
    graph = load_graph("small", graphs / "fb15k-small", "raw_udd_hrt", files, cache=False)

    def share(seed):
        ranker = Ranker(TrainConfig.from_flags({"seed": seed, "eval_percent": 0.1}), graph)
        return np.stack(ranker._share(graph.valid))

    np.testing.assert_array_equal(share(3), share(3))
    assert not np.array_equal(share(3), share(4))


def test_a_share_is_the_same_in_each_run_of_a_seed(runs):
    flags = ["--max_step", 20, "--valid", "--eval_interval", 10, "--eval_percent", 0.02]
    assert logged(runs(*flags), "valid/MRR") == logged(runs(*flags), "valid/MRR")


# ---- the best validation


@pytest.mark.parametrize("flags, swaps", [(["--neg_sample_size_eval", 500], False), (["--no_eval_filter"], False),
                                          (["--eval_percent", 0.3], False),
                                          ([], True)], ids=["candidates", "filter", "share", "triples"])
def test_the_best_validation_is_one_of_those_that_can_be_compared(runs, capsys, flags, swaps):
    """A run whose numbers do not depend on validations may be validated in another way from some step on."""
    common = ["--checkpoint_interval", 4, "--valid", "--eval_interval", 4, "--test"]
    sampled = ["--neg_sample_size_eval", 2, "--eval_percent", 0.2]  # an MRR that no later one comes to
    folder = runs(*common, *sampled, "--max_step", 8)
    first = result(folder)["best_validation"]
    runs.resume(folder, "--max_step", 12)
    assert result(folder)["best_validation"]["MRR"] >= first["MRR"] and "looked for anew" not in capsys.readouterr().out
    files = ["--data_files", "train.txt", "test.txt", "valid.txt"] if swaps else []
    runs.resume(folder, "--max_step", 16, *flags, *files)
    assert "looked for anew" in capsys.readouterr().out
    assert result(folder)["best_validation"]["step"] == 16
    assert CheckpointFolder(folder / "checkpoints").best().step == 16
    runs.resume(folder, "--max_step", 18, *flags, *files)  # without a further validation
    assert result(folder)["best_validation"]["step"] == 16 and "looked for anew" not in capsys.readouterr().out


# ---- a custom model

MODEL = '''
from dglke_frugal.models import TorchModel

class Scaled(TorchModel):
    """Half of DistMult."""

    def score(self, head, relation, tail):
        return {factor} * (head * relation * tail).sum(-1)  # {comment}

class Derived(Scaled):
    pass
'''


def test_a_changed_model_is_refused(runs, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    module, name = tmp_path / "scaled_model.py", "scaled_model:Derived"

    def write(**parts):
        import importlib
        import linecache
        import sys

        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        module.write_text(MODEL.format(**parts))
        sys.modules.pop("scaled_model", None)
        importlib.invalidate_caches()
        linecache.clearcache()

    flags = ["--model_name", name, "--max_step"]
    write(factor=0.5, comment="one")
    expected, folder = tables(runs(*flags, 8)), runs(*flags, 4)
    write(factor=0.5, comment="another comment")
    assert tables(runs.resume(folder, "--max_step", 8)) == expected
    write(factor=0.7, comment="one")
    with refused("--model_name was"):
        runs.resume(folder, "--max_step", 12)
    assert code_checksum("TransE") is None
