"""docs/performance.md holds what the JSON files in benchmarks/results hold, and nothing else."""

import json
from pathlib import Path

import pytest

from benchmarks import column_model, machine, rank_model, report, result_file, targets

ROOT = Path(__file__).resolve().parents[2]


def figures(text):
    """Headings and rows of tables, of what was measured."""
    return [line for line in text.split("## Not measured yet")[0].splitlines() if line.startswith(("|", "## "))]


def test_the_pages_are_made_of_the_committed_results():
    results = {path.name: json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    expected = report.pages(results)
    folder = ROOT / "docs" / "performance"
    assert {path.stem for path in folder.glob("*.md")} == set(expected) - {""}
    for name, text in expected.items():
        written = (folder / f"{name}.md" if name else folder.with_suffix(".md")).read_text(encoding="utf-8")
        assert figures(written) == figures(text), f"{name}: run python -m benchmarks.report as docs/performance.md says"


def test_pages_of_results_that_are_gone_go_too(tmp_path, result):
    report.write(tmp_path / "performance.md", {"train-old.json": result})
    assert "| `steps_per_s` | 1,235 |" in (tmp_path / "performance" / "train-old.md").read_text()
    report.write(tmp_path / "performance.md", {"train-new.json": result})
    assert [path.name for path in (tmp_path / "performance").iterdir()] == ["train-new.md"]
    assert "[train-new](performance/train-new.md)" in (tmp_path / "performance.md").read_text()


def test_the_readme_marks_figures_without_a_clean_origin():
    origins = [report.has_clean_origin(result_file.read(path).get("machine", {}))
               for path in (ROOT / "benchmarks" / "results").glob("*.json")]
    assert ("†" in (ROOT / "README.md").read_text(encoding="utf-8")) == (not all(origins))


def test_no_figure_is_of_flushing_where_nothing_is_flushed():
    """One GPU stores values itself; what waits are staged values. The engine's ratios are of a simulation."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (waiting,) = [line for line in lines if "flushed by P²F" in line and line.startswith("|")]
    legs = [json.loads((ROOT / "benchmarks" / "results" / "train_gpu-h200.json").read_text())[part]
            for part in ("fb15k", "large")]
    stalls = [leg["frugal_staged"]["metrics"]["train/stall_share"] for leg in legs]
    assert "{:.0%} and {:.0%} of the time".format(*stalls).replace("%", " %") in waiting
    assert all("simulation" in line for line in lines if "211x" in line or "87x" in line)


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


def test_bars_are_beside_the_figures():
    rows = targets.rows({"train.json": {"stall_share": 0.02, "frugal_over_vanilla_cpu": 3.0, "threads": 2},
                         "train_gpu-here.json": {"stall_share": 0.01, "frugal_over_vanilla_gpu": None}})
    assert [(key, value, reached, file) for _, key, value, _, reached, file in rows] == [
        ("`frugal_over_vanilla_cpu`", 3.0, "yes", "`train.json`"),
        ("`stall_share`", 0.02, "**no**", "`train.json`"), ("`stall_share`", 0.01, "yes", "`train_gpu-here.json`")]
    by_precision = {"speed_bf16": {"softmax_over_torch_14k": 9.0}, "speed_tf32": {"softmax_over_torch_14k": 2.5}}
    assert [row[2] for row in targets.rows({"full_softmax.json": by_precision})] == [2.5]


def test_page_says_machine_and_what_is_missing(result, tmp_path):
    file = tmp_path / "train-somewhere.json"
    result_file.write(file, result)
    stamped = result_file.read(file)
    assert {key: value for key, value in stamped.items() if key != "machine"} == result
    written = report.pages({file.name: stamped})
    text = written["train-somewhere"]
    facts = machine.facts()
    assert text.startswith("# train-somewhere") and "python -m benchmarks.train --json FILE" in text
    one_line = " ".join(text.split())
    assert f"{facts['cores']} cores" in one_line and f"torch {facts['versions']['torch']}" in one_line
    missing = written[""][written[""].index("## Not measured yet") :]
    assert "benchmarks.eval" in missing and "benchmarks.train " not in missing
    assert "machine.versions" not in text


@pytest.fixture
def on_gpu():
    """Of one GPU: a step of 2 ms alone and of 5 ms for two ranks; 500 gradients a millisecond, 10 MB a millisecond."""

    def counts(gradients, relation_gradients):
        return {"rows": 1000, "relation_rows": 0, "gradients": gradients, "relation_gradients": relation_gradients}

    return {
        "gpus": [0], "dataset": "small", "batch_size": 100, "flush_threads": 2, "gradients_per_second": 250_000,
        "host_memory_gb_s": 10, "ranks": {n: {"p2f": {"steps_per_second": rate}} for n, rate in
                                          (("1", 500), ("2", 400), ("4", 200))},
        "counts": {"small": {"2": counts(50, 75), "4": counts(50, 75), "8": counts(50, 575)}},
    }


def test_several_gpus_on_paper(on_gpu):
    """By hand: d = 2 ms, g(2) = 2 * 125 / 500 = 0.5 ms, so o = 5 - 2 * 2 - 0.5 = 0.5 ms."""
    assert rank_model.is_measured(on_gpu)
    _, rows = rank_model.rows(on_gpu)
    between, applying, memory, step, triples, gain = rows[2][1:]  # eight GPUs: g = 8 * 625 / 500 = 10 ms
    assert (between, applying, step) == pytest.approx((2.5, 10, 12.5))
    assert memory == pytest.approx(8 * 2 * (1000 * 1664 + 625 * 1600) / 10e6)
    assert (triples, gain) == pytest.approx((800 / 12.5e-3, 8 * 2 / 12.5))
    assert rows[5][0] == "small, relations apart, 8" and rows[5][2] == pytest.approx(0.8)
    (sentence,) = rank_model.check(on_gpu)  # 4 * 2 + 0.5 + 4 * 125 / 500
    assert sentence == "4 ranks on 1 GPU, by the model: 9.50 ms a step; measured: 20.00 ms."
    on_gpu["host_memory_gb_s"] = 0.1  # then memory is the limit
    assert rank_model.rows(on_gpu)[1][2][4] == pytest.approx(100 * memory)
    assert "### Several GPUs, on paper" in report.pages({"ranks-here.json": on_gpu})["ranks-here"]
    assert "on paper" not in report.pages({"ranks.json": {**on_gpu, "gpus": []}})["ranks"]


def test_several_gpus_by_columns_on_paper(monkeypatch):
    """By hand: 10 positives of 9 + 1 pairs, 1 MB/s over links; one GPU takes 1 ms."""
    for name, value in {"BATCH": 10, "NEGATIVES": 9, "FACTS": 1, "LINK": 1e6, "MEETING": 1e-5}.items():
        monkeypatch.setattr(column_model, name, value)
    assert [column_model.sent(4, shares) for shares in (False, True)] == [3 * 1600, 2 * 0.75 * 1600]
    assert [column_model.over_bus(4, shares) for shares in (False, True)] == [4 * 1600, (0.75 + 0.25 + 1.5) * 1600]
    legs = {"one_on_device": 1e4, "columns_on_device_4": 4e4 / 2, "columns_no_peer_2": 20 / (1e-3 + 2e-5 + 8e-4)}
    result = {"n_gpus_over_one": {}, "fb15k": {name: {"triples_per_second": rate} for name, rate in legs.items()}}
    model = column_model.ColumnModel(result)
    assert model.bus == pytest.approx(2e6)  # 2 * 800 bytes in 0.8 ms
    assert model.step("fb15k", "columns_no_peer", "one_on_device", 4, True) == pytest.approx(1e-3 + 2e-3 + 3e-5)
    _, rows = column_model.rows(result)
    assert [row[0] for row in rows] == [f"FB15k, {what}, {n}" for what in ("on the devices", "no peers")
                                        for n in (2, 4, 8)]
    assert rows[1][1:4] == pytest.approx([1000 + 4800 + 20, 1000 + 2400 + 30, 2000])
    assert rows[0][3] is None
    # A row takes 2 us, one of half the bytes 1.5 and of a quarter 1.25.
    monkeypatch.setattr(column_model, "ROW_BYTES", 1000)
    monkeypatch.setattr(column_model, "BUS_ROW", ((1000, 2.0), (500, 1.5)))
    assert [column_model.rows_over_one(n) for n in (1, 2, 4)] == pytest.approx([1, 1.5, 2.5])
    large = {"large": {"one": {"triples_per_second": 1e4}}}
    for waits_for, expected in (("bus", 2.5e-3), ("host", 1e-3 + 2.4e-3 + 3e-5)):
        model = column_model.ColumnModel({**large, "one_gpu_waits_for": waits_for})
        monkeypatch.setattr(column_model, "LINK", 1e9 if waits_for == "bus" else 1e6)
        assert model.step("large", "columns", "one", 4, True) == pytest.approx(expected)
        link = 2.4e-6 if waits_for == "bus" else 2.4e-3  # rows carried whole take the bus as long as one GPU's
        assert model.step("large", "columns_whole", "one", 4, True) == pytest.approx(1e-3 + link + 3e-5)
    # Computation and rows go on beside each other: of whole rows those take longer, but for their two meetings.
    small = {"fb15k": {"one_on_device": {"triples_per_second": 10 / 0.5e-3}}}
    monkeypatch.setattr(column_model, "LINK", 1e9)
    model = column_model.ColumnModel({**large, **small, "one_gpu_waits_for": "bus"})
    assert model.step("large", "columns_whole", "one", 4, True) == pytest.approx(1e-3 + 2e-5)
    assert "### Several GPUs, on paper" in report.pages({"ranks-here.json": result})["ranks-here"]
