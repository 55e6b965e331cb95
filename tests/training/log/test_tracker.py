"""Trackers: what they write, and what they say when they cannot."""

import json
import re
import resource
import signal
import sys
import types

import numpy as np
import pytest

from dglke_frugal.errors import InputError
from dglke_frugal.extras import install_command
from dglke_frugal.training.log.tracker import JsonLinesTracker, make_tracker


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_lines_are_on_disk_at_once_and_survive_a_resume(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tracker = JsonLinesTracker(path)
    tracker.start({"lr": 0.1}, 0)
    tracker.log({"train/loss": 0.5, "speed": float("nan"), "stall": float("inf")}, 10)
    first, second = lines(path)  # not closed yet
    assert (first["event"], first["config"], first["step"]) == ("start", {"lr": 0.1}, 0)
    assert (second["step"], second["train/loss"], second["speed"], second["stall"]) == (10, 0.5, None, None)
    tracker.close()
    resumed = JsonLinesTracker(path)
    resumed.start({"lr": 0.1}, 10)
    resumed.close()
    assert [line["step"] for line in lines(path)] == [0, 10, 10]


def test_numpy_numbers_are_numbers(tmp_path):
    tracker = JsonLinesTracker(tmp_path / "metrics.jsonl")
    tracker.start({}, 0)
    tracker.log({"a": np.float32(0.25), "b": np.array(2.0), "c": np.int64(3)}, 1)
    line = lines(tmp_path / "metrics.jsonl")[1]
    assert (line["a"], line["b"], line["c"]) == (0.25, 2.0, 3.0)


def test_a_torn_line_costs_only_itself(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "train/lo')
    tracker = JsonLinesTracker(path)
    tracker.start({}, 1)
    tracker.log({"train/loss": 1.0}, 2)
    written = path.read_text().splitlines()
    assert len(written) == 4
    assert json.loads(written[3])["train/loss"] == 1.0


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot write .*metrics.jsonl"):
        JsonLinesTracker(tmp_path / "absent" / "metrics.jsonl").start({}, 0)


def test_a_line_that_a_full_disk_has_no_room_for_leaves_no_half(tmp_path):
    """Also a file may have a limit: the system then writes what fits, as on a full disk."""
    path = tmp_path / "metrics.jsonl"
    tracker = JsonLinesTracker(path)
    tracker.start({}, 0)
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
        with pytest.raises(InputError, match="cannot write .*metrics.jsonl: File too large"):
            tracker.log({"train/loss": 1.0}, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    tracker.log({"train/loss": 2.0}, 20)
    assert [line["step"] for line in lines(path)] == [0, 20]


def test_a_full_disk_is_an_input_error():
    tracker = JsonLinesTracker("/dev/full")
    with pytest.raises(InputError, match="No space left"):
        tracker.start({}, 0)


def test_an_unknown_or_missing_tracker_is_an_input_error(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no tracker 'comet'; choose from tensorboard, wandb, mlflow, csv"):
        make_tracker(tmp_path, ["comet"])
    for name, module in [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb"), ("mlflow", "mlflow")]:
        monkeypatch.setitem(sys.modules, module, None)  # import fails
        with pytest.raises(InputError, match=re.escape(install_command(name))):
            make_tracker(tmp_path, [name])


def test_tensorboard_gets_scalars_and_forgets_what_a_resume_repeats(tmp_path, monkeypatch):
    calls = []

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            calls.append(("open", folder, purge_step))

        def __getattr__(self, name):
            return lambda *arguments: calls.append((name, *arguments))

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    tracker = make_tracker(tmp_path, ["tensorboard"])
    tracker.start({"lr": 0.1}, 100)
    tracker.log({"train/loss": 0.5}, 110)
    tracker.close()
    assert calls[0] == ("open", str(tmp_path / "tensorboard"), 100)
    assert calls[2:] == [("add_scalar", "train/loss", 0.5, 110), ("flush",), ("close",)]
    assert lines(tmp_path / "metrics.jsonl")[1]["train/loss"] == 0.5


def test_wandb_goes_on_with_the_same_run(tmp_path, monkeypatch):
    opened, logged = [], []

    def init(**options):
        opened.append(options)
        return types.SimpleNamespace(id="abc", log=lambda metrics, step: logged.append((metrics, step)),
                                     finish=lambda: None)

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    for step in (0, 100):
        tracker = make_tracker(tmp_path, ["wandb"])
        tracker.start({"lr": 0.1}, step)
        tracker.log({"train/loss": 0.5}, step + 10)
        tracker.close()
    assert [options["id"] for options in opened] == [None, "abc"]
    assert opened[0]["config"] == {"lr": 0.1}
    assert logged == [({"train/loss": 0.5}, 10), ({"train/loss": 0.5}, 110)]


def test_csv_has_a_row_for_each_step_and_forgets_what_a_resume_repeats(tmp_path):
    import csv

    def rows():
        with open(tmp_path / "metrics.csv", newline="") as file:
            return [{name: value for name, value in row.items() if name != "time"} for row in csv.DictReader(file)]

    tracker = make_tracker(tmp_path, ["csv"])
    tracker.start({}, 0)
    tracker.log({"train/loss": 0.5}, 10)
    tracker.log({"train/loss": 0.25}, 20)
    tracker.log({"valid/MRR": 0.125}, 20)
    tracker.close()
    assert rows() == [{"step": "10", "train/loss": "0.5", "valid/MRR": ""},
                      {"step": "20", "train/loss": "0.25", "valid/MRR": ""},
                      {"step": "20", "train/loss": "", "valid/MRR": "0.125"}]
    again = make_tracker(tmp_path, ["csv"])
    again.start({}, 10)
    assert [row["step"] for row in rows()] == ["10"]
    again.log({"train/loss": 0.375}, 20)
    again.close()
    assert rows()[1] == {"step": "20", "train/loss": "0.375", "valid/MRR": ""}
    make_tracker(tmp_path, ["csv"]).start({}, 0)
    assert rows() == []


def test_a_csv_that_somebody_has_changed(tmp_path):
    def again():
        tracker = make_tracker(tmp_path, ["csv"])
        tracker.start({}, 10)
        tracker.close()

    path = tmp_path / "metrics.csv"
    path.write_text("step,time,train/loss\n10,1,0.5,a note,another\n1,1\nsum,,7\n")
    again()
    assert path.read_text().splitlines() == ["step,time,train/loss", "10,1,0.5", "1,1,"]
    for damaged in (b"step,time\n\xff\xfe\n", "step,time\n\u00b2,1\n".encode()):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="cannot read .*metrics.csv.*; remove it"):
            again()
        assert path.read_bytes() == damaged


def test_mlflow_goes_on_under_its_id(tmp_path, monkeypatch):
    from types import SimpleNamespace

    calls = []

    def start_run(**options):
        calls.append(("start", options))
        return SimpleNamespace(info=SimpleNamespace(run_id=options["run_id"] or "id 7"))

    fake = SimpleNamespace(start_run=start_run, log_params=lambda params: calls.append(("params", params)),
                           log_metrics=lambda metrics, step: calls.append((step, metrics)),
                           end_run=lambda: calls.append("end"))
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    for step in (0, 5):
        tracker = make_tracker(tmp_path, ["mlflow"])
        tracker.start({"lr": 0.5, "seed": None}, step)
        tracker.log({"valid/HITS@10": 0.25}, step + 1)
        tracker.close()
    assert calls == [("start", {"run_id": None, "run_name": tmp_path.name, "nested": True}),
                     ("params", {"lr": "0.5", "seed": ""}), (1, {"valid/HITS_at_10": 0.25}), "end",
                     ("start", {"run_id": "id 7", "run_name": None, "nested": True}),
                     (6, {"valid/HITS_at_10": 0.25}), "end"]
