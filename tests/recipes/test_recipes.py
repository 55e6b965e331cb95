"""Every recipe runs on its small graph and learns something; every file and every command of the READMEs is valid."""
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from dglke_frugal.cli import config_file, flags
from dglke_frugal.config import TrainConfig, check
from dglke_frugal.training.memory_plan import row_bytes

FOLDERS = ("fb15k", "freebase", "wikikg")
ROOT = Path(__file__).resolve().parents[2]
ENTITIES = {"fb15k": 14_951, "freebase": 86_054_151, "wikikg2": 2_500_604, "wikikg90Mv2": 91_230_610}


def recipe(folder):
    return importlib.import_module(f"recipes.{folder}.__main__").RECIPE


def every_file():
    return [(folder, name) for folder in FOLDERS for name in recipe(folder).names()]


def parse(arguments):
    """The configuration that dglke_train would make of its arguments; those of --config come first."""
    own, _ = flags.split(arguments)
    if own.config:
        names = set(TrainConfig().to_flags()) | {"trainer"}
        arguments = [*config_file.arguments_from(ROOT / own.config, names), *arguments]
    own, rest = flags.split(arguments)
    config = TrainConfig.from_flags({**vars(flags.dglke_flags().parse_args(rest)), **vars(own)})
    check(config)
    return config


def commands(folder):
    """(line, arguments) of each dglke_train command in a README, lines that go on joined."""
    text = (ROOT / "recipes" / folder / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.strip().startswith("dglke_train --config")]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("folder, name", every_file())
def test_every_file_runs_on_the_small_graph(folder, name, tmp_path, capsys):
    steps = "150" if name != "transe_l2" else "500"
    recipe(folder).main(["--small", "--recipe", name, "--out", str(tmp_path), "--max_step", steps, "--log_interval", "50"])
    run = next((tmp_path / "ckpts").iterdir())
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == int(steps)
    losses = [json.loads(line).get("train/loss") for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [loss for loss in losses if loss is not None]
    assert losses[-1] < losses[0]
    if name == "transe_l2":
        metrics = result["test"] or result["validation"]
        by_chance = 100 if folder != "fb15k" else 800  # half of the candidates
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
    config = parse(["--config", f"recipes/{folder}/{name}.yaml"])
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
        entities = ENTITIES.get(dataset) or ENTITIES[dataset.lower()]
        assert float(size) == pytest.approx(entities * row_bytes(int(dim)) / {"GB": 1e9, "MB": 1e6}[unit], rel=0.005)


def test_one_command_asks_for_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        recipe("fb15k").main(["--help"])
    assert stopped.value.code == 0
    assert "--small" in capsys.readouterr().out
