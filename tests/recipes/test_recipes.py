"""Every recipe runs on its small graph and learns something; every file and every command of the READMEs is valid."""

import functools
import importlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from datasets import families
from dglke_frugal.cli.plan import KNOWN_SIZES, main as plan
from dglke_frugal.cli.train import configuration
from dglke_frugal import available_memory
from dglke_frugal.training.plan.memory_plan import GraphSize, plan_memory
from dglke_frugal.store.row_bytes import row_bytes

FOLDERS = ("fb15k", "fb15k_237", "wn18rr", "freebase", "wikikg")
ROOT = Path(__file__).resolve().parents[2]
LARGE = {"freebase": "transe_l2",
         "wikikg": "wikikg90mv2_transe_l2"}  # runs that need more memory than most machines have


one_graph = functools.lru_cache(maxsize=None)(families.generate)  # of all recipes


def recipe(folder):
    return importlib.import_module(f"recipes.{folder}.__main__").RECIPE


def every_file():
    return [(folder, name) for folder in FOLDERS for name in recipe(folder).names()]


def parse(arguments):
    """The configuration that dglke_train makes of its arguments."""
    return configuration(arguments)[1]


def host_gigabytes(config, **model):
    """What the run needs by plan, with another model."""
    smaller = replace(config, model=replace(config.model, **model))
    return plan_memory(smaller, GraphSize(*KNOWN_SIZES[config.graph.dataset])).bytes("host") / 1e9


def commands(folder):
    """(line, arguments) of each dglke_train command in a README, lines that go on joined."""
    text = (ROOT / "recipes" / folder / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line, comments=True)[1:]
            for line in text.splitlines()
            if line.strip().startswith("dglke_train --preset")]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("folder, name", every_file())
def test_every_file_runs_on_the_small_graph(folder, name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(families, "generate", one_graph)
    steps = "150" if name != "transe_l2" else "500"
    recipe(folder).main(
        ["--small", "--recipe", name, "--out", str(tmp_path), "--max_step", steps, "--log_interval", "50"])
    run = next((tmp_path / "ckpts").iterdir())
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == int(steps)
    losses = [json.loads(line).get("train/loss") for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [loss for loss in losses if loss is not None]
    assert losses[-1] < losses[0]
    if name == "transe_l2":
        metrics = result["test"] or result["validation"]
        by_chance = 100 if not folder.startswith("fb15k") else 800  # half of the candidates
        assert metrics["MR"] < 0.7 * by_chance
        assert metrics["HITS@10"] > 0.04
        assert "average MRR" in capsys.readouterr().out


@pytest.mark.parametrize("folder", FOLDERS)
def test_commands_of_the_readme_are_valid(folder):
    found = commands(folder)
    assert len(found) >= 3
    configs = [parse(arguments) for arguments in found]
    assert {len(config.device.gpu) > 1 for config in configs} == {True, False}
    alone = parse(found[0][:2])
    for config in configs:  # as many triples on several GPUs as on one
        if len(config.device.gpu) > 1 and config.model == alone.model:
            assert config.run.max_step * len(config.device.gpu) == alone.run.max_step


@pytest.mark.parametrize("folder, name", every_file())
def test_every_file_is_a_run_that_can_start(folder, name):
    config = parse(["--preset", f"{folder}/{name}"])
    assert config.model.model_name.lower() in name.replace("_", "") or config.model.model_name.lower() in name
    assert config.run.seed is not None
    assert f"{name}.yaml" in (ROOT / "recipes" / folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS)
def test_memory_in_the_readme_follows_from_the_row(folder):
    text = (ROOT / "recipes" / folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| (\d+) \| ([\d,]+) \| ([\d.]+) (GB|MB) \|", text, re.MULTILINE)
    assert rows
    for dataset, dim, row, size, unit in rows:
        assert int(row.replace(",", "")) == row_bytes(int(dim))
        entities = KNOWN_SIZES[dataset][0]
        assert float(size) == pytest.approx(entities * row_bytes(int(dim)) / {"GB": 1e9, "MB": 1e6}[unit], rel=0.005)


@pytest.mark.parametrize("folder", LARGE)
def test_dims_that_fit_follow_from_the_plan(folder):
    text = (ROOT / "recipes" / folder / "README.md").read_text(encoding="utf-8")
    config = parse(["--preset", f"{folder}/{LARGE[folder]}"])
    assert f"needs {host_gigabytes(config):.4g} GB" in text
    rows = re.findall(r"^\| (\d+) GB \| (\d+) \|", text, re.MULTILINE)
    assert len(rows) == 4
    for memory, dim in rows:
        assert (
            host_gigabytes(config, hidden_dim=int(dim))
            <= int(memory)
            < host_gigabytes(config, hidden_dim=int(dim) + 32))


def test_plan_reads_the_file(capsys, monkeypatch):
    monkeypatch.setattr(available_memory, "host_bytes", lambda: 24 << 30)
    with pytest.raises(SystemExit) as stopped:
        plan(["--preset", "freebase/transe_l2", "--data_path", "nowhere"])
    messages = capsys.readouterr()
    assert stopped.value.code == 2 and "hidden_dim" in messages.err
    readme = (ROOT / "recipes/freebase/README.md").read_text(encoding="utf-8")
    for line in messages.out.splitlines():
        assert line.split("   of")[0] in readme


def test_one_command_asks_for_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        recipe("fb15k").main(["--help"])
    assert stopped.value.code == 0
    assert "--small" in capsys.readouterr().out
