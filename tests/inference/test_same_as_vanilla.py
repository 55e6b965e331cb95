"""Our dglke_eval, dglke_predict and dglke_emb_sim against DGL-KE's own, on the same files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples

from dglke_frugal.cli import emb_sim, evaluate, predict
from inference.make_run import udd_flags, write_run

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 13), reason="dgl, which DGL-KE needs, has no wheels for it")

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "RESCAL")
PREDICTIONS = [
    ("TransE_l2", ["--format", "h_r_*", "--data_files", "h.ids", "r.ids", "--exec_mode", "batch_head"]),
    ("TransE_l1", ["--format", "*_r_t", "--data_files", "r.ids", "t.ids", "--exec_mode", "batch_tail"]),
    ("DistMult", ["--format", "h_*_t", "--data_files", "h.ids", "t.ids", "--exec_mode", "batch_rel", "--topK", "2"]),
    ("ComplEx", ["--format", "h_r_t", "--data_files", "h.ids", "r.ids", "t.ids", "--score_func", "logsigmoid"]),
    ("RESCAL", ["--format", "h_*_*", "--data_files", "h.ids"]),
    ("RotatE", ["--format", "*_*_t", "--data_files", "t.ids", "--score_func", "logsigmoid", "--exec_mode", "all"]),
    (
        "TransE_l2",
        ["--format", "h_r_t", "--data_files", "h.ids", "three.ids", "t.ids", "--exec_mode", "triplet_wise", "--topK",
         "3"])]
SIMILARITIES = [["--sim_func", measure, "--exec_mode", mode, "--format", form, "--data_files", *files]
                for measure in ("cosine", "l2", "l1", "dot", "ext_jaccard")
                for mode, form, files in (("batch_left", "l_*", ["h.ids"]),
                                          ("all", "*_r", ["t.ids"]),
                                          ("pairwise", "l_r", ["h.ids", "t.ids"]))]
RUNNER = """
import contextlib, io, json, sys
from dglke_frugal import vanilla
outputs = []
for command, argv in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        vanilla.run(command, argv)
    outputs.append(out.getvalue())
print(json.dumps(outputs))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in MODELS:
        model = random_model(name, entities=80, relations=4, dim=12)
        triples = random_triples(model, 1200)
        splits = {split: tuple(column[i::3][:limit] for column in triples)
                  for i, (split, limit) in enumerate((("train", 400), ("valid", 400), ("test", 150)))}
        write_run(folder / name, model, graph=splits)
    (folder / "h.ids").write_text("3\n17\n40\n")
    (folder / "r.ids").write_text("1\n3\n")
    (folder / "three.ids").write_text("1\n3\n2\n")
    (folder / "t.ids").write_text("60\n2\n9\n")
    return folder


def eval_arguments(folder, name):
    hidden_dim = "6" if name == "RotatE" else "12"
    flags = [*udd_flags(folder / name), "--model_name", name, "--hidden_dim", hidden_dim, "--gamma", "3",
             "--batch_size_eval", "16"]
    return flags + (["--double_ent"] if name == "RotatE" else [])


def predict_arguments(folder, number):
    name, flags = PREDICTIONS[number]
    return ["--model_path", str(folder / name), *flags]


def similarity_arguments(folder, number):
    return ["--emb_file", str(folder / "TransE_l2" / "toy_TransE_l2_entity.npy"), "--topK", "3", *SIMILARITIES[number]]


@pytest.fixture(scope="module")
def vanilla(folder):
    """What DGL-KE printed for each model's evaluation; its predictions and similarities are in files."""
    requests = [("eval", eval_arguments(folder, name)) for name in MODELS]
    requests += [("predict", [*predict_arguments(folder, i), "--output", f"vanilla_predict_{i}"])
                 for i in range(len(PREDICTIONS))]
    requests += [("emb_sim", [*similarity_arguments(folder, i), "--output", f"vanilla_sim_{i}"])
                 for i in range(len(SIMILARITIES))]
    done = subprocess.run([sys.executable, "-c", RUNNER], input=json.dumps(requests), cwd=folder, capture_output=True,
                          text=True, env=dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1"), timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(MODELS, outputs))


def metrics(text):
    return {name: float(value) for name, value in re.findall(r"Test average (\S+?) ?: (\S+)", text)}


@pytest.mark.parametrize("name", MODELS)
def test_metrics(folder, vanilla, capsys, name):
    evaluate.main([*eval_arguments(folder, name), "--filter_rule", "penalized"])
    ours = metrics(capsys.readouterr().out)
    assert len(ours) == 5 and ours == pytest.approx(metrics(vanilla[name]), rel=1e-9)


def same_rows(ours, theirs):
    ours, theirs = ([line.split("\t") for line in path.read_text().splitlines()] for path in (ours, theirs))
    assert ours[0] == theirs[0] and len(ours) == len(theirs) > 3
    np.testing.assert_allclose([float(row[-1]) for row in ours[1:]], [float(row[-1]) for row in theirs[1:]], rtol=2e-5,
                               atol=2e-5)
    assert in_order(ours[1:]) == in_order(theirs[1:])


def in_order(rows):
    """The ids, best first; DGL-KE leaves the order of equal scores to chance, so these are sorted."""
    return [row[:-1] for row in sorted(rows, key=lambda row: (-round(float(row[-1]), 3), row))]


@pytest.mark.parametrize("number", range(len(PREDICTIONS)))
def test_predictions(folder, vanilla, monkeypatch, number):
    monkeypatch.chdir(folder)
    predict.main([*predict_arguments(folder, number), "--output", "ours"])
    same_rows(folder / "ours", folder / f"vanilla_predict_{number}")


@pytest.mark.parametrize("number", range(len(SIMILARITIES)))
def test_similarities(folder, vanilla, monkeypatch, number):
    monkeypatch.chdir(folder)
    emb_sim.main([*similarity_arguments(folder, number), "--output", "ours"])
    same_rows(folder / "ours", folder / f"vanilla_sim_{number}")
