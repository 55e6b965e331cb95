"""docs/performance.md holds what the JSON files in benchmarks/results hold, and nothing else."""

import json
from pathlib import Path

import pytest

from benchmarks import machine, report

ROOT = Path(__file__).resolve().parents[2]


def figures(text):
    """Headings and rows of tables, of what was measured."""
    return [line for line in text.split("## Not measured yet")[0].splitlines() if line.startswith(("|", "## "))]


def test_the_page_is_made_of_the_committed_results():
    results = {path.name: json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    written = figures((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert written == figures(report.page(results)), f"run {report.__doc__.splitlines()[4].strip()}"


def test_every_benchmark_says_how_it_is_run():
    known = report.benchmarks()
    assert {"compat", "engine", "eval", "kernels", "load", "sampler", "train", "train_step"} <= set(known)
    for name, (title, command) in known.items():
        assert title and command.split("python -m ")[1].startswith(f"benchmarks.{name} ")


@pytest.fixture
def result():
    return {
        "steps_per_s": 1234.5678,
        "name": "a|b",
        "missing": None,
        "on": True,
        "few": [1, 2.5],
        "many": list(range(100)),
        "legs": {"vanilla": {"ms": 41.25, "runs": [1, 2]}, "frugal": {"ms": 4.5}},
        "nested": {"deep": {"x": 1e-7}},
        "rows": [{"dim": 32, "gb_s": 1.5}, {"dim": 64, "gb_s": 3.25}],
    }


def test_all_values_are_in_the_tables(result):
    text = "\n\n".join(report.tables(result))
    for line in (
        "| `steps_per_s` | 1,235 |",
        "| `name` | a\\|b |",
        "| `missing` | - |",
        "| `on` | True |",
        "| `few` | 1, 2.5 |",
        "| `many` | 0 to 99, median 50 of 100 |",
        "|  | ms | runs |",
        "| vanilla | 41.25 | 1, 2 |",
        "| frugal | 4.5 |  |",
        "`nested.deep`",
        "| `x` | 1e-07 |",
        "|  | dim | gb_s |",
        "| 1 | 64 | 3.25 |",
    ):
        assert line in text, line
    for block in text.split("\n\n"):
        columns = {line.replace("\\|", "").count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(columns) <= 1


def test_page_says_machine_and_what_is_missing(result, tmp_path):
    file = tmp_path / "train-somewhere.json"
    file.write_text(json.dumps(result))
    report.stamp(file)
    stamped = json.loads(file.read_text())
    assert {key: value for key, value in stamped.items() if key != "machine"} == result
    text = report.page({file.name: stamped})
    facts = machine.facts()
    assert "## train-somewhere" in text and "python -m benchmarks.train --json FILE" in text
    one_line = " ".join(text.split())
    assert f"{facts['cores']} cores" in one_line and f"torch {facts['versions']['torch']}" in one_line
    missing = text[text.index("## Not measured yet") :]
    assert "benchmarks.eval" in missing and "benchmarks.train " not in missing
    assert "machine.versions" not in text
