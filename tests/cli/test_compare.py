"""`dglke_frugal compare`: one table of runs in four forms."""

import csv
import io
import json

import pytest

from dglke_frugal.cli import compare


@pytest.fixture
def runs(tmp_path):
    found = []
    for number, (mrr, lr) in enumerate([(0.25, 0.1), (0.5, 0.3), (None, 0.2)]):
        folder = tmp_path / f"run|{number}"
        folder.mkdir()
        flags = {"model_name": "ComplEx", "lr": lr, "gamma": 12.0, "test": mrr is not None}
        (folder / "metrics.jsonl").write_text(json.dumps(
            {"step": 0, "event": "start", "time": 0.0, "config": flags}) + '\n{"step": 7, "a": 1}\n')
        if mrr is not None:
            (folder / "result.json").write_text(json.dumps({
                "steps": 100, "max_step": 100, "stopped_early": False, "seed": 1,
                "test": {"MRR": mrr, "HITS@10": 0.75}}))
        found.append(str(folder))
    return found


def printed(capsys, *arguments):
    compare.main(list(arguments))
    return capsys.readouterr().out


def test_json_has_all_digits(runs, capsys):
    rows = json.loads(printed(capsys, *runs, "--format", "json"))
    assert [row["run"] for row in rows] == ["run|0", "run|1", "run|2"]
    assert [(row["test MRR"], row["HITS@10"], row["lr"], row["steps"]) for row in rows] == [
        (0.25, 0.75, 0.1, 100), (0.5, 0.75, 0.3, 100), (None, None, 0.2, 7)]
    assert [row["test"] for row in rows] == [True, True, False]
    assert "gamma" not in rows[0] and "HITS@1" not in rows[0]  # the same for all; known of none


def test_csv_and_tables(runs, capsys):
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *runs, "--format", "csv"))))
    assert [row["test MRR"] for row in rows] == ["0.25", "0.5", ""] and rows[2]["lr"] == "0.2"
    first, rule, *lines = printed(capsys, *runs, "--format", "markdown").splitlines()
    assert first.startswith("| run | test MRR | HITS@10 |") and set(rule) <= set("| -")
    assert lines[0].startswith("| run\\|0 | 0.2500 | 0.7500 |") and len(lines) == 3
    first, *lines = printed(capsys, *runs).splitlines()
    place = first.index("test MRR")
    assert [line[place : place + 6].strip() for line in lines] == ["0.2500", "0.5000", ""]


def test_it_writes_a_file_and_nothing_else(runs, tmp_path, capsys, refused):
    out = tmp_path / "table.csv"
    for _ in range(2):
        assert printed(capsys, *runs, "--format", "csv", "--out", str(out)) == f"Saved {out}\n"
    assert out.read_text().startswith("run,test MRR")
    out.write_text("a,b\n")
    with refused("is there already"):
        compare.main([*runs, "--format", "csv", "--out", str(out)])
    with refused("has no metrics.jsonl"):
        compare.main([str(tmp_path)])
