"""DGL-KE's own tools read what our native trainer writes, and agree with what it printed."""
import re

import numpy as np
import pytest
from vanilla.conftest import dglke  # noqa: F401 (a fixture)

from dglke_frugal.cli.train import main

FLAGS = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]


@pytest.fixture(scope="module")
def trained(graphs, tmp_path_factory):
    """(folder of the data, folder of the run)"""
    parent = tmp_path_factory.mktemp("native")
    data = parent / "data"
    (data / "small").mkdir(parents=True)
    for name in ("train.txt", "valid.txt", "test.txt"):
        (data / name).symlink_to(graphs / "fb15k-small" / name)
    main([*FLAGS, "--data_path", str(data), "--save_path", str(parent / "runs"), "--model_name", "TransE_l2",
          "--hidden_dim", "16", "--gamma", "12", "--lr", "0.1", "--batch_size", "256", "--neg_sample_size", "32",
          "--max_step", "300", "--seed", "2"])
    return data, next((parent / "runs").iterdir())


def metrics(text):
    return {name: float(value) for name, value in re.findall(r"Test average (\S+?) ?: (\S+)", text)}


def test_eval(trained, dglke, tmp_path, capsys):  # noqa: F811
    from dglke_frugal.cli import evaluate

    data, run = trained
    arguments = [*FLAGS, "--data_path", str(data), "--model_path", str(run), "--model_name", "TransE_l2",
                 "--hidden_dim", "16", "--gamma", "12", "--batch_size_eval", "16"]
    theirs = metrics(dglke("eval", arguments, tmp_path))
    evaluate.main([*arguments, "--filter_rule", "penalized"])  # as DGL-KE 0.1.2 filters
    ours = metrics(capsys.readouterr().out)
    assert len(theirs) == 5
    assert ours == pytest.approx(theirs, rel=1e-4)  # of 2600 ranks, a few may turn on the last bit of a score


def test_predict_and_emb_sim(trained, dglke, tmp_path):  # noqa: F811
    from dglke_frugal import load

    _, run = trained
    for name, ids in (("h.ids", "7\n"), ("r.ids", "3\n")):
        (tmp_path / name).write_text(ids)
    dglke("predict", ["--model_path", str(run), "--format", "h_r_*", "--data_files", "h.ids", "r.ids", "--topK", "5",
                      "--score_func", "none", "--output", "predicted.tsv"], tmp_path)
    rows = [line.split("\t") for line in (tmp_path / "predicted.tsv").read_text().splitlines()[1:]]
    ours = load(run).tails(7, 3, k=5)
    # it predicts with gamma 0
    np.testing.assert_allclose([float(row[-1]) for row in rows], [found.score - 12 for found in ours], rtol=1e-4)
    dglke("emb_sim", ["--emb_file", str(next(run.glob("*_entity.npy"))), "--format", "l_*", "--data_files", "h.ids",
                      "--topK", "5", "--output", "similar.tsv"], tmp_path)
    assert len((tmp_path / "similar.tsv").read_text().splitlines()) == 6
