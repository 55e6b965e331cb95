"""dglke_predict and dglke_emb_sim as commands."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from evaluation.random_models import random_model
from evaluation.ranking_oracle import score

from dglke_frugal.cli import emb_sim, predict
from dglke_frugal.errors import InputError
from dglke_frugal.inference.lists import read_list
from inference.make_run import write_run


@pytest.fixture
def model():
    return random_model("TransE_l2")


@pytest.fixture
def run(tmp_path, model):
    folder = write_run(tmp_path / "run", model)
    (folder / "h.ids").write_text("3\n17\n")
    (folder / "r.ids").write_text("1\n4\n0\n")
    (folder / "t.ids").write_text("60\n2\n")
    (folder / "h.names").write_text("entity 3\nentity 17\n")
    (folder / "r.names").write_text("relation 1\nrelation 4\nrelation 0\n")
    return folder


def read(path):
    header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    return header, rows


@pytest.mark.parametrize("form, files, lists", [
    ("h_r_t", "h.ids r.ids t.ids", ([3, 17], [1, 4, 0], [60, 2])),
    ("h_r_*", "h.ids r.ids", ([3, 17], [1, 4, 0], range(61))),
    ("h_*_t", "h.ids t.ids", ([3, 17], range(5), [60, 2])),
    ("*_r_t", "r.ids t.ids", (range(61), [1, 4, 0], [60, 2])),
    ("h_*_*", "h.ids", ([3, 17], range(5), range(61))),
    ("*_r_*", "r.ids", (range(61), [1, 4, 0], range(61))),
    ("*_*_t", "t.ids", (range(61), range(5), [60, 2]))])
def test_every_format(run, model, capsys, form, files, lists):
    out = run / "out.tsv"
    predict.main(
        ["--model_path", str(run), "--format", form, "--data_files", *(str(run / name) for name in files.split()),
         "--topK", "7", "--output", str(out)])
    header, rows = read(out)
    assert header == ["head", "rel", "tail", "score"] and len(rows) == 7
    wanted = sorted((score(model, *triple) - model.gamma for triple in itertools.product(*lists)), reverse=True)[:7]
    np.testing.assert_allclose([float(row[3]) for row in rows], wanted, rtol=1e-5)  # without the margin, as DGL-KE
    for row in rows:
        assert float(row[3]) == pytest.approx(score(model, *map(int, row[:3])) - model.gamma, rel=1e-5)
    assert capsys.readouterr().out == f"Inference Done\nThe result is saved in {out}\n"


def test_names_in_and_names_out(run):
    out = run / "out.tsv"
    predict.main(
        ["--model_path", str(run), "--format", "h_r_*", "--data_files", str(run / "h.names"), str(run / "r.names"),
         "--raw_data", "--exec_mode", "batch_head", "--topK", "2", "--score_func", "logsigmoid", "--output", str(out)])
    _, rows = read(out)
    assert [row[0] for row in rows] == ["entity 3"] * 2 + ["entity 17"] * 2
    assert all(row[1].startswith("relation ") and row[2].startswith("entity ") and float(row[3]) < 0 for row in rows)


def test_similar_entities(run, model):
    out = run / "out.tsv"
    emb_sim.main(
        ["--emb_file", str(run / "toy_TransE_l2_entity.npy"), "--format", "l_*", "--data_files", str(run / "h.names"),
         "--raw_data", "--mfile", str(run / "entities.tsv"), "--exec_mode", "batch_left", "--topK", "3", "--output",
         str(out)])
    header, rows = read(out)
    assert header == ["left", "right", "score"] and len(rows) == 6
    assert rows[0] == ["entity 3", "entity 3", "1.0"] and rows[3][:2] == ["entity 17", "entity 17"]

    of_files = out.read_text()
    emb_sim.main(["--model_path", str(run), "--format", "l_*", "--data_files", str(run / "h.names"), "--raw_data",
                  "--exec_mode", "batch_left", "--topK", "3", "--output", str(out)])
    assert out.read_text() == of_files


BAD_PREDICTIONS = {
    "no format": ([], "--format is None"),
    "unknown format": (["--format", "h_t"], "--format is h_t"),
    "too few lists": (["--format", "h_r_t", "--data_files", "h.ids"], "needs 3 lists"),
    "missing list": (["--format", "h_*_*", "--data_files", "none.ids"], "none.ids does not exist; give a file"),
    "empty list": (["--format", "h_*_*", "--data_files", "empty"], "is empty"),
    "no number": (["--format", "h_*_*", "--data_files", "h.names"], "line 1 of .*h.names"),
    "huge number": (["--format", "h_*_*", "--data_files", "huge"], "line 2 of .*huge"),
    "id out of range": (["--format", "h_*_*", "--data_files", "high"], "line 1 of high is '61', .*from 0 to 60"),
    "unknown name": (["--format", "h_*_*", "--data_files", "h.ids", "--raw_data"], "line 1 of .*h.ids: .*no '3'"),
    "no UTF-8": (["--format", "h_*_*", "--data_files", "bytes"], "line 2 is not valid UTF-8"),
    "UTF-16": (["--format", "h_*_*", "--data_files", "wide"], "UTF-16; save the file as UTF-8"),
    "unknown mode": (["--format", "h_*_*", "--data_files", "h.ids", "--exec_mode", "x"], "exec_mode x"),
    "unknown score": (["--format", "h_*_*", "--data_files", "h.ids", "--score_func", "x"], "--score_func is x"),
    "no results": (["--format", "h_*_*", "--data_files", "h.ids", "--topK", "0"], "at least 1"),
    "too many": (["--format", "h_*_*", "--data_files", "h.ids", "--topK", "9" * 20], "topK is 9{20}; .*at most"),
    "no GPU": (["--format", "h_*_*", "--data_files", "h.ids", "--gpu", "99"], "--gpu 99"),
    "no map": (["--format", "h_*_*", "--data_files", "h.names", "--raw_data", "--entity_mfile", "none"], "no map file"),
    "unwritable": (["--format", "h_*_*", "--data_files", "h.ids", "--output", "none/out"], "cannot write")}


@pytest.mark.parametrize("case", BAD_PREDICTIONS)
def test_bad_predictions_end_with_a_sentence(run, refused, monkeypatch, case):
    (run / "empty").write_text("\n")
    (run / "huge").write_text("1\n" + "9" * 30 + "\n")
    (run / "high").write_text("61\n")
    (run / "bytes").write_bytes(b"1\n\xff\n")
    (run / "wide").write_bytes("1\n".encode("utf-16"))
    monkeypatch.chdir(run)
    flags, message = BAD_PREDICTIONS[case]
    with refused(message):
        predict.main(["--model_path", str(run), *flags])
    assert not (run / "result.tsv").exists()


@pytest.mark.parametrize("flags, message", [
    ([], "give --model_path, the folder of a run, or --emb_file"),
    (["--model_path", ".", "--emb_file", "none.npy", "--format", "*"], "leave out --emb_file"),
    (["--model_path", "none", "--format", "*"], "none"),
    (["--model_path", ".", "--backend", "vanilla"], "--model_path is not a flag of DGL-KE"),
    (["--emb_file", "none.npy", "--format", "*"], "none.npy; a training without --no_save_emb"),
    (["--emb_file", "toy_TransE_l2_entity.npy"], "--format is None"),
    (["--emb_file", "toy_TransE_l2_entity.npy", "--format", "l_r"], "needs 2 lists"),
    (["--emb_file", "toy_TransE_l2_entity.npy", "--format", "*", "--raw_data"], "--mfile"),
    (["--emb_file", "toy_TransE_l2_entity.npy", "--format", "*", "--sim_func", "x"], "sim_func x"),
    (["--emb_file", "toy_TransE_l2_entity.npy", "--format", "*", "--topK", "9" * 20], "topK is 9999")])
def test_bad_similarities_end_with_a_sentence(run, refused, monkeypatch, flags, message):
    monkeypatch.chdir(run)
    with refused(message):
        emb_sim.main(flags)
    assert not (run / "result.tsv").exists()


@pytest.mark.parametrize("module", ["evaluate", "predict", "emb_sim", "export"])
def test_help_needs_no_torch(module):
    code = (
        f"import sys; from dglke_frugal.cli import {module}\ntry: {module}.main(['--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules")
    assert "usage" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("line", ["1_0", "\u0661", "9" * 5000 + "x", "1 0"])
def test_names_that_python_takes_for_numbers_are_no_ids(tmp_path, line):
    (tmp_path / "list").write_text(f"3\n +1 \n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3 of .*list is .*, which is no id; give numbers") as refused:
        read_list(tmp_path / "list")
    assert len(str(refused.value)) < 400
    (tmp_path / "list").write_text("3\n +1 \n")
    assert read_list(tmp_path / "list").tolist() == [3, 1]
    with pytest.raises(InputError, match="line 1 of .*list is '3', which is no id of the model; give ids from 0 to 2"):
        read_list(tmp_path / "list", rows=3)
