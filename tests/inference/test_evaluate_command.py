"""dglke_eval."""

import json
import re

import pytest
from inference.make_run import udd_flags, write_run
from evaluation.random_models import random_model, random_triples

from dglke_frugal.cli import evaluate as command
from dglke_frugal.evaluation import KnownTriples, evaluate


@pytest.fixture
def run(tmp_path):
    model = random_model("DistMult")
    triples = random_triples(model, 600)
    splits = {name: tuple(column[i::3] for column in triples) for i, name in enumerate(("train", "valid", "test"))}
    return write_run(tmp_path / "run", model, graph=splits), model, splits


@pytest.mark.parametrize("flags", [[], pytest.param(["--gpu", "0"], marks=pytest.mark.cuda)])
def test_lines_and_json_are_the_evaluations(run, tmp_path, capsys, flags):
    folder, model, splits = run
    command.main([*udd_flags(folder), "--json", str(tmp_path / "out.json"), "--breakdown", *flags])
    expected = evaluate(model, splits["test"], KnownTriples(splits.values())).metrics()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"|test|: {len(splits['test'][0])}"
    assert lines[1:6] == [f"[0]Test average {name}: {value}" for name, value in expected.named().items()]
    assert re.fullmatch(r"Test takes \d+\.\d{3} seconds", lines[6])
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["metrics"] == expected.named() and result["ranks"] == 2 * len(splits["test"][0])
    rows = result["by_relation"]
    assert sum(row["ranks"] for row in rows if row["relation"] is not None) == result["ranks"]
    heads = [row for row in rows if row["side"] == "head" and row["relation"] is not None]
    mean = sum(row["MR"] * row["ranks"] for row in heads) / (result["ranks"] / 2)
    assert mean == pytest.approx(next(row for row in rows if row["side"] == "head")["MR"])
    assert any(line.startswith("relation 3") for line in lines)
    assert all(row["name"] == f"relation {row['relation']}" for row in rows if row["relation"] is not None)


def test_flags_win_over_the_config_and_the_config_over_defaults(run, capsys, refused):
    folder, _, _ = run
    wrong = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**wrong, "emb_size": 99}))
    with refused("hidden dimension of 99"):
        command.main(udd_flags(folder))
    command.main([*udd_flags(folder), "--hidden", "10"])  # abbreviated
    assert "Test average MRR" in capsys.readouterr().out


def test_without_config_the_flags_must_say_everything(run, capsys):
    folder, _, _ = run
    (folder / "config.json").unlink()
    command.main([*udd_flags(folder), "--model_name", "DistMult", "--hidden_dim", "10", "-g", "3"])
    assert "Test average HITS@10" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [
    ["--neg_sample_size_eval", "20"],
    ["--no_eval_filter"],
    ["--eval_percent", "0.2"],
    ["--no_eval_filter", "--neg_deg_sample_eval", "--neg_sample_size_eval", "9"],
    ["--rank_ties", "realistic"],
    ["--filter_rule", "penalized"]])
def test_protocols_are_reproducible(run, capsys, flags):
    folder, _, _ = run
    outputs = []
    for _ in range(2):
        command.main([*udd_flags(folder), *flags, "--seed", "3"])
        outputs.append([line for line in capsys.readouterr().out.splitlines() if "average" in line])
    assert outputs[0] == outputs[1] and len(outputs[0]) == 5


@pytest.mark.parametrize("flags, message", [
    (["--neg_deg_sample_eval"], "--no_eval_filter"),
    (["--eval_percent", "0"], r"share in \(0, 1\]"),
    (["--gpu", "99"], "--gpu 99"),
    (["--neg_sample_size_eval", "0"], "at least 1"),
    (["--neg_sample_size_eval", "-5"], "at least 1"),
    (["--seed", "-1"], r"--seed is -1; give a number in \[0, 2\*\*32\)"),
    (["--seed", str(2**32)], "--seed is 4294967296"),
    (["--model_path", "/nowhere"], "no folder"),
    (["--num_proc", "0"], "at least 1"),
    (["--model_name", "TransE_l1"], "TransE_l1_entity.npy"),
    (["--nonsense"], "nonsense"),
    (["--backend", "vanilla", "--breakdown"], "--breakdown is not a flag of DGL-KE"),
    (["--rank_ties", "odd"], "rank_ties")])
def test_bad_requests_end_with_a_sentence(run, capsys, flags, message):
    folder, _, _ = run
    with pytest.raises(SystemExit) as stopped:
        command.main([*udd_flags(folder), *flags])
    captured = capsys.readouterr()
    assert stopped.value.code == 2 and re.search(message, captured.err) and "Test average" not in captured.out


@pytest.mark.parametrize("finished, says", [(False, "has not ended.*dglke_train --resume"), (True, "--no_save_emb")])
def test_a_run_without_tables_is_not_taken_for_one_on_FB15k(tmp_path, capsys, finished, says):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text("dataset: toy\n")
    if finished:
        (folder / "result.json").write_text("{}")
    with pytest.raises(SystemExit) as stopped:
        command.main(["--model_path", str(folder)])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1 and "FB15k" not in error
    assert re.search(says, error)


def test_a_folder_without_tables_is_not_taken_for_a_run_on_FB15k(tmp_path, refused):
    with refused(f"{tmp_path} has no config.json"):
        command.main(["--model_path", str(tmp_path), "--data_path", str(tmp_path)])


def test_tables_without_a_config_are_not_taken_for_none(tmp_path, refused):
    for name in ("config.yaml", "result.json", "toy_DistMult_entity.npy"):
        (tmp_path / name).write_text("{}")
    with refused("has tables, and its config.json is gone; copy it"):
        command.main(["--model_path", str(tmp_path)])


@pytest.mark.parametrize("value", ["[" * 100_000, '{"gamma": ' + "9" * 5000 + "}", '{"gamma": ' + "9" * 900 + "}"])
def test_a_config_that_python_cannot_hold(run, refused, value):
    folder, _, _ = run
    if value.startswith("{"):
        value = json.dumps(json.loads((folder / "config.json").read_text()))[:-1] + ", " + value[1:]
    (folder / "config.json").write_text(value)
    with refused("config.json"):
        command.main(udd_flags(folder))


def test_a_share_of_less_than_one_triple_is_one(run, tmp_path, capsys):
    folder, _, _ = run
    command.main([*udd_flags(folder), "--eval_percent", "1e-9", "--json", str(tmp_path / "out.json")])
    assert capsys.readouterr().out.startswith("|test|: 1\n")
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["ranks"] == 2 and 0 < result["metrics"]["MRR"] <= 1


def test_candidates_by_degree_where_none_are_drawn_are_reported(run, capsys):
    folder, _, _ = run
    flags = [*udd_flags(folder), "--no_eval_filter"]
    command.main(flags)
    without = capsys.readouterr().out.splitlines()
    command.main([*flags, "--neg_deg_sample_eval"])
    line, *rest = capsys.readouterr().out.splitlines()
    assert line.startswith("--neg_deg_sample_eval has no effect") and rest[:6] == without[:6]
    command.main([*flags, "--neg_deg_sample_eval", "--neg_sample_size_eval", "10"])
    assert "no effect" not in capsys.readouterr().out


def test_more_samples_than_entities_is_reported(run, tmp_path, capsys):
    folder, model, splits = run
    command.main([*udd_flags(folder), "--neg_sample_size_eval", "10000", "--json", str(tmp_path / "out.json")])
    assert "there are 61 entities, each triple is ranked against all of them" in capsys.readouterr().out
    result = json.loads((tmp_path / "out.json").read_text())
    expected = evaluate(model, splits["test"], KnownTriples(splits.values())).metrics()
    assert result["candidates"] == "all" and result["metrics"] == expected.named()
