"""What a run says at its start and end is true, and there for programs, too."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from training.conftest import Runs

from dglke_frugal.cli.evaluate import main as evaluate_command
from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.evaluation import EmbeddingModel, Protocol, evaluate, ranking
from dglke_frugal.training.log import messages
from dglke_frugal.training.log.messages import graph_facts, short, time_left


@pytest.fixture
def strange(tmp_path):
    """A graph with two duplicates, and one entity each that only valid and test have."""
    data = tmp_path / "data"
    data.mkdir()
    rows = [f"e{i}\tr{i % 3}\te{(7 * i + 1) % 40}" for i in range(40)]
    (data / "train.txt").write_text("\n".join([*rows, rows[3], rows[9]]) + "\n")
    (data / "valid.txt").write_text("e1\tr0\tnew one\ne1\tr0\te2\n")
    (data / "test.txt").write_text("e1\tr0\te2\nnew two\tr0\te2\nnew two\tr1\tnew one\ne3\tr1\te4\n")
    return Runs(data, tmp_path)


def test_the_start_says_what_there_is(strange, capsys):
    folder = strange("--max_step", 21, "--batch_size", 20, "--neg_sample_size", 10, "--valid", "--test")
    messages = capsys.readouterr().out
    lines = messages.splitlines()
    for split, count in (("train", 42), ("valid", 2), ("test", 4)):  # as DGL-KE, in its order
        assert lines.index(f"Reading {split} triples....") < lines.index(f"Finished. Read {count} {split} triples.")
    assert {"|Train|: 42", "|valid|: 2", "|test|: 4"} <= set(lines)
    assert "small: 42 entities, 3 relations, 48 triples" in lines
    assert f"TransE_l2, 21 steps of 20 triples (10.0 epochs), seed 3, in {folder}" in lines
    assert "2 of 42 training triples stand there twice" in messages
    assert "1 entity of valid is in no training triple" in messages and "1 of its triples (50.0%)" in messages
    assert "2 entities of test are in no training triple" in messages and "2 of its triples (50.0%)" in messages
    assert "--eval_interval 10000 is more than --max_step 21, so --valid never ranks" in messages
    result = json.loads((folder / "result.json").read_text())
    assert result["graph"] == {
        "entities": 42, "relations": 3, "triples": {"train": 42, "valid": 2, "test": 4}, "duplicates": 2,
        "held_out": {"valid": {"entities": 1, "with_new_entities": 1, "relations": 0, "with_new_relations": 0,
                               "in_train": 0},
                     "test": {"entities": 2, "with_new_entities": 2, "relations": 0, "with_new_relations": 0,
                              "in_train": 0}}}
    assert result["epochs"] == pytest.approx(10.0)


def test_the_start_counts_the_triples_that_are_ranked(strange, capsys):
    """As DGL-KE: |test| is what the test will rank; one triple at least, as there is one at least."""
    strange("--max_step", 1, "--batch_size", 20, "--neg_sample_size", 10, "--test", "--eval_percent", 0.5)
    assert {"|Train|: 42", "|valid|: 1", "|test|: 2"} <= set(capsys.readouterr().out.splitlines())
    strange("--max_step", 1, "--batch_size", 20, "--neg_sample_size", 10, "--test", "--eval_percent", 0.01)
    assert {"|Train|: 42", "|valid|: 1", "|test|: 1"} <= set(capsys.readouterr().out.splitlines())


def test_what_the_test_has_to_do_with_training_is_reported(runs, capsys, tmp_path):
    """Relations that nothing trains, and triples that are trained, by the training and by dglke_eval."""
    data = tmp_path / "said"
    data.mkdir()
    rows = [f"e{i}\tr{i % 2}\te{(7 * i + 1) % 40}\n" for i in range(40)]
    (data / "train.txt").write_text("".join(rows))
    (data / "valid.txt").write_text("e1\tr9\te2\n" + rows[5])
    (data / "test.txt").write_text("".join([*rows[:3], "e1\tr8\te2\n", "e2\tr8\te2\n", "e2\tr9\te2\n"]))
    folder = Runs(data, tmp_path / "said runs")("--max_step", 3, "--valid", "--test")
    expected = ["1 relation of valid is in no training triple, so its row stays at random: 1 of its triples (50.0%)",
                "1 of 2 valid triples stand in train as well (50.0%)",
                "2 relations of test are in no training triple, so their rows stay at random: 3 of its triples (50.0%)",
                "3 of 6 test triples stand in train as well (50.0%)"]
    messages = capsys.readouterr().out
    assert all(line in messages for line in expected)
    result = json.loads((folder / "result.json").read_text())["graph"]["held_out"]
    assert result["test"] == {"entities": 0, "with_new_entities": 0, "relations": 2, "with_new_relations": 3,
                              "in_train": 3}
    evaluate_command(["--model_path", str(folder)])
    messages = capsys.readouterr().out
    assert all(line in messages for line in expected[2:]) and "of valid" not in messages
    runs("--max_step", 3, "--test")
    messages = capsys.readouterr().out
    assert "stand in train" not in messages and "in no training triple" not in messages


def test_large_graphs_are_not_searched(monkeypatch):
    part = Triples(*(np.arange(5, dtype=np.int32) % n for n in (9, 3, 9)))
    graph = KnowledgeGraph("g", 10, 3, part, test=part)
    assert graph_facts(graph)["held_out"]["test"]["in_train"] == 5
    monkeypatch.setattr(messages, "SEARCHED", 4)
    assert graph_facts(graph)["held_out"]["test"]["in_train"] is None


def test_valid_is_suggested_where_it_is_there(runs, capsys):
    runs("--max_step", 50)
    assert "add --valid --eval_interval 10 to see" in capsys.readouterr().out
    runs("--max_step", 50, "--valid", "--eval_interval", 25)
    runs("--max_step", 5, "--data_files", "train.txt")
    messages = capsys.readouterr().out
    assert "--valid" not in messages.replace("--valid=", "") and "stand there twice" not in messages


def test_the_end_says_commands_that_work(runs, capsys):
    folder = runs("--max_step", 5)
    where, *commands = capsys.readouterr().out.splitlines()[-5:]
    assert where.startswith(f"The run is in {folder} (seed 3).")
    for command, printed in zip(commands, ("Test average MRR", "report.html", "training takes", "/m/")):
        program, *arguments = shlex.split(command)
        program = {"python": ["-c"]}.get(program, ["-m", "dglke_frugal", program.partition("_")[2]])
        if program[-1] == "frugal":
            program.pop()
        done = subprocess.run([sys.executable, *program, *arguments[arguments[0] == "-c" :]], capture_output=True,
                              text=True)
        assert done.returncode == 0 and printed in done.stdout, command + done.stderr
    assert json.loads((folder / "result.json").read_text())["steps"] == 10


def test_a_folder_with_any_name_is_found_by_the_command_for_python(runs, capsys, tmp_path):
    runs("--max_step", 3, "--save_path", tmp_path / "it's `a` $HOME")
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert command[:2] == ["python", "-c"] and len(command) == 3
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_was_done_is_not_suggested(runs, capsys):
    runs("--max_step", 3, "--test", "--no_save_emb")
    end = capsys.readouterr().out.split("The run is in")[1]
    folder = runs("--max_step", 10**6, "--valid", "--eval_interval", 1, "--early_stop_patience", 1, "--lr", 1e-9)
    assert json.loads((folder / "result.json").read_text())["stopped_early"]
    assert "--resume" not in capsys.readouterr().out.split("The run is in")[1]
    assert "dglke_eval" not in end and "--resume" not in end and "dglke_frugal report" in end


def test_log_lines_are_short_and_say_the_time_left(runs, capsys):
    runs("--max_step", 200, "--log_interval", 100)
    messages = capsys.readouterr().out
    assert all(len(value) <= 12 for value in re.findall(r"average \w+: (\S+)", messages))
    assert len(re.findall(r"^\[proc 0\][\d,]+ triples/s, \d+:\d\d:\d\d left$", messages, re.M)) == 2
    assert messages.count(" 0:00:00 left") >= 1


@pytest.mark.parametrize("value, text", [
    (0.0018015976609, "0.0018016"), (7.0, "7.0"), (692.0396153, "692.04"), (1e-7, "1e-07"), (0.0, "0.0"),
    (float("nan"), "nan"), (float("inf"), "inf")])
def test_short_numbers(value, text):
    assert short(value) == text and (float(text) == pytest.approx(value, rel=1e-5, nan_ok=True))


def test_time_left():
    assert [time_left(seconds) for seconds in (0.2, 59.6, 3725, 90000)] == ["0:00:00", "0:01:00", "1:02:05", "25:00:00"]


def test_duplicates_are_counted_as_a_set_counts_them(monkeypatch):
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, n, 500).astype(np.int32) for n in (9, 3, 9)]
    graph = KnowledgeGraph("g", 10, 3, Triples(*columns))
    assert graph_facts(graph)["duplicates"] == 500 - len(set(zip(*(column.tolist() for column in columns))))
    monkeypatch.setattr(messages, "COUNTED", 499)
    assert graph_facts(graph)["duplicates"] is None


class Bar:
    """Stands in for progress."""

    def __init__(self):
        self.totals, self.told = [], []

    def __call__(self, total, *_):
        self.totals.append(total)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, count):
        self.told.append(count)


@pytest.mark.parametrize("model_name", ["DistMult", "TransR"])
def test_ranking_shows_how_far_it_is(monkeypatch, model_name):
    from evaluation.random_models import random_model, random_triples

    model = random_model(model_name)
    triples = random_triples(model, 300)
    expected = evaluate(model, triples, None, Protocol(known="kept"), show=False).metrics()
    bar = Bar()
    monkeypatch.setattr("dglke_frugal.evaluation.protocol.progress", bar)
    monkeypatch.setattr(ranking, "_BLOCK_PRODUCTS", 1)
    rows = len(triples[0])
    many = tuple(np.tile(column, 9) for column in triples)
    assert evaluate(model, many, None, Protocol(known="kept")).metrics().mrr == pytest.approx(expected.mrr)
    assert bar.totals == [2 * 9 * rows] and sum(bar.told) == 2 * 9 * rows and len(bar.told) > 4
    evaluate(model, triples, None, Protocol(known="kept"), show=False)
    assert len(bar.totals) == 1


def test_custom_models_show_it_too(monkeypatch, tmp_path):
    (tmp_path / "shown_models.py").write_text(
        "from dglke_frugal.models import TorchModel\nclass Dot(TorchModel):\n"
        "    def score(self, head, relation, tail):\n        return (head * relation * tail).sum(-1)\n")
    monkeypatch.chdir(tmp_path)
    table = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    bar = Bar()
    monkeypatch.setattr("dglke_frugal.evaluation.protocol.progress", bar)
    ids = np.arange(50)
    evaluate(EmbeddingModel("shown_models:Dot", 1.0, 4, table, table), (ids, ids, ids), None, Protocol(known="kept"))
    assert bar.totals == [100] and sum(bar.told) == 100
