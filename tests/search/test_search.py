"""Searches on a small graph: what is best is found and written, bad trials are pruned, a killed search goes on."""

import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import yaml
from training.conftest import small  # noqa: F401 (a fixture)

from dglke_frugal.cli.main import main
from dglke_frugal.cli.train import configuration
from dglke_frugal.options import TrainConfig, numbers_flags
from dglke_frugal.presets.auto import PATIENCE_IF_SMALL
from dglke_frugal.errors import InputError
from dglke_frugal.extras import install_command
from dglke_frugal.search import fitting, plots, run_search as searching, study as studies
from dglke_frugal.search.results import recipe_flags
from dglke_frugal.search.run_search import SearchConfig, run_search
from dglke_frugal.search.space import Space
from dglke_frugal.search.study import Study
from dglke_frugal.search.trial_process import TrialProcess

pytest.importorskip("optuna")

PYTHON = sys.executable  # of searches in processes of their own, whose trials are no forks
SPACE = """\
flags: {model_name: DistMult, hidden_dim: 16, gamma: 12, batch_size: 256, neg_sample_size: 32, max_step: 60,
  eval_interval: 20, eval_percent: 0.1}
search:
  lr: {low: 1.0e-5, high: 1.0, log: true}
  regularization_coef: [0.0, 1.0e-7]
start:
  - {lr: 0.2, regularization_coef: 0.0}
  - {lr: 1.0e-5}
full: {max_step: 90}
"""


@pytest.fixture(autouse=True)
def no_plotly(monkeypatch):
    """Pages have this package's charts."""
    monkeypatch.setattr(plots, "find_spec", lambda name: None)


@pytest.fixture
def search(small, interpreter, tmp_path, monkeypatch):  # noqa: F811
    """Starts the command on the small graph; returns its arguments, with a function to run them in this process, whose
    trials are forks."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "executable", interpreter)
    (tmp_path / "space.yaml").write_text(SPACE)
    common = [str(tmp_path / "space.yaml"), "--dataset", "small", "--format", "raw_udd_hrt", "--data_files",
              "train.txt", "valid.txt", "test.txt", "--data_path", str(small), "--out", str(tmp_path / "out")]

    class Search:
        out, arguments = tmp_path / "out", common

        def __call__(self, *flags):
            main(["search", *common, *map(str, flags)])
            return json.loads((self.out / "results.json").read_text())

    return Search()


def test_the_best_is_found_and_is_a_recipe(search, tmp_path, capsys):
    recipe = tmp_path / "best.yaml"
    found = search("--trials", 4, "--parallel", 2, "--no_prune", "--best", recipe)
    messages = capsys.readouterr().out
    trials = found["trials"]
    assert sorted(trial["number"] for trial in trials) == [0, 1, 2, 3]
    assert [trial["MRR"] for trial in trials] == sorted((trial["MRR"] for trial in trials), reverse=True)
    by_number = {trial["number"]: trial for trial in trials}
    assert by_number[0]["params"] == {"lr": 0.2, "regularization_coef": 0.0} and by_number[1]["params"]["lr"] == 1e-5
    assert by_number[0]["MRR"] > 3 * by_number[1]["MRR"] and found["best"] == trials[0]
    for trial in trials:
        assert [step for step, _ in trial["validations"]] == [20, 40, 60] and trial["state"] == "complete"
        assert trial["MRR"] == max(mrr for _, mrr in trial["validations"])
    assert f"best {found['best']['MRR']:.4f} (trial {found['best']['number']})" in messages
    flags = yaml.safe_load(recipe.read_text())
    assert flags["lr"] == found["best"]["params"]["lr"] and flags["max_step"] == 60 and flags["eval_interval"] == 20
    assert flags["dataset"] == "small" and not {"data_path", "save_path", "no_save_emb"} & set(flags)
    assert flags["test"] is True and found["full"] == {"max_step": 90}
    assert re.search(r"trial \d, the best of 4", recipe.read_text())
    in_full = (r"In full, as the space has it: dglke_train --config .*best.yaml .* --max_step=90 "
               r"--early_stop_patience=4$")
    assert re.search(in_full, messages, re.M)
    page = (search.out / "results.html").read_text()
    assert page.count("<figure>") == 3 and page.count("<circle") >= 12  # trials, lr, regularization_coef
    assert all(f"trial {trial['number']}: {trial['MRR']:.4f}" in page for trial in trials)
    assert "<script" not in page and not re.search(r'(?:src|href)="', page)


@pytest.mark.parametrize("more", [[], ["--num_proc", "2"]], ids=["one process", "two processes"])
def test_the_printed_command_has_the_numbers_of_the_best_trial(
        search, small, tmp_path, monkeypatch, capsys, more):  # noqa: F811
    """Names with spaces and quotes, a relative folder of the data, and a best step before the last one."""
    shutil.copytree(small, tmp_path / "my data")
    (tmp_path / "my data" / "train.txt").rename(tmp_path / "my data" / "it's train.txt")
    (tmp_path / "my space.yaml").write_text(
        SPACE.replace("low: 1.0e-5, high", "low: 1.0, high").replace("{lr: 0.2,", "{lr: 1.0,")
        .replace("  - {lr: 1.0e-5}\n", "").replace("max_step: 60", "max_step: 240"))
    monkeypatch.chdir(tmp_path)
    search.arguments[:] = ["my space.yaml", "--dataset", "my graph", "--format", "raw_udd_hrt", "--data_files",
                           "it's train.txt", "valid.txt", "test.txt", "--data_path", "my data",
                           "--save_path", "my runs", *more]
    search.out = tmp_path / "my search"
    best = search("--out", "my search", "--trials", 1, "--best", "my best.yaml")["best"]
    assert len(best["validations"]) == 12 and (more or best["step"] < 240)
    (line,) = re.findall("train with: (.*)$", capsys.readouterr().out, re.M)
    program, *arguments = shlex.split(line)
    assert program == "dglke_train"
    main(["train", *arguments])
    run = tmp_path / "my runs" / "DistMult_my graph_0"
    logged = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    assert [[each["step"], each["valid/MRR"]] for each in logged if "valid/MRR" in each] == best["validations"]
    result = json.loads((run / "result.json").read_text())
    assert (result["best_validation"]["step"], result["best_validation"]["MRR"]) == (best["step"], best["MRR"])
    assert result["steps"] == 240 and not result["stopped_early"]
    capsys.readouterr()
    main(["train", *arguments, "--max_step", str(best["step"]), "--save_path", "to the best"])
    for table in run.glob("*.npy"):  # of the best step, not of the last one
        assert table.read_bytes() == (tmp_path / "to the best" / run.name / table.name).read_bytes()


@pytest.mark.parametrize("full, given, says", [
    ("max_step: 120, eval_interval: 40", [], "--max_step=120 --eval_interval=40 --early_stop_patience=3"),
    ("max_step: 80, eval_interval: 40, early_stop_patience: 1", [],
     "--max_step=80 --eval_interval=40 --early_stop_patience=1"),
    ("max_step: 80, eval_interval: 40, early_stop_patience: 1", ["--eval_interval", 10],
     "--max_step=80 --early_stop_patience=8"),
    ("max_step: 80, eval_interval: 40, early_stop_patience: 1", ["--max_step", 30], None),
    ("max_step: 80, eval_interval: 40, gamma: 10", ["--max_step", 30], "--gamma=10.0"),
    ("neg_deg_sample: false", [], "--neg_deg_sample=False"),
    ("neg_deg_sample: false", ["--neg_deg_sample"], None)])
def test_a_full_run_goes_over_the_recipe_and_can_start(
        search, small, tmp_path, capsys, full, given, says):  # noqa: F811
    """What is given goes before it; how often a run is validated goes with how long it is."""
    (tmp_path / "space.yaml").write_text(SPACE.replace("max_step: 60", "max_step: 40, neg_deg_sample: true")
                                         .replace("full: {max_step: 90}", f"full: {{{full}}}"))
    search("--trials", 1, "--best", tmp_path / "best.yaml", *given)
    line = re.search("^In full, as the space has it: dglke_train (.*)$", capsys.readouterr().out, re.M)
    assert bool(line) == bool(says)
    if line:
        configuration(shlex.split(line[1]))
        assert line[1].endswith(f" --data_path={small} {says}")


def test_a_full_run_that_cannot_start_is_refused_before_the_search(search, tmp_path, refused):
    (tmp_path / "space.yaml").write_text(SPACE.replace("max_step: 90", "lr_patience: 2, max_step: 10"))
    with refused("the full run of .*space.yaml: --lr_patience watches validations, and there are none"):
        search("--trials", 1)
    assert not search.out.exists()


@pytest.mark.parametrize("change", ["train.txt", "valid.txt", "test.txt", "--num_proc", "--eval_percent",
                                    "--search_seed", "code", "tables"])
def test_a_search_goes_on_only_where_trials_have_the_same_numbers(
        search, small, tmp_path, capsys, refused, monkeypatch, change):  # noqa: F811
    shutil.copytree(small, tmp_path / "data")
    search.arguments[search.arguments.index("--data_path") + 1] = str(tmp_path / "data")
    more = []
    if change == "code":
        monkeypatch.syspath_prepend(tmp_path)
        source = (tmp_path / "own_of_search.py")
        text = ("from dglke_frugal.models import TorchModel\n\n\nclass Own(TorchModel):\n"
                "    def score(self, h, r, t):\n"
                "        return (h * r * t).sum(-1)\n")
        source.write_text(text)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        more = ["--model_name", "own_of_search:Own"]
    if change == "tables":
        common = search.arguments[1 : search.arguments.index("--out")]
        main(["train", *common, "--model_name", "DistMult", "--hidden_dim", "16", "--max_step", "5", "--save_path",
              str(tmp_path / "first")])
        more = ["--init_from", tmp_path / "first" / "DistMult_small_0"]
    search("--trials", 1, "--max_step", 20, *more)
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")  # where the data are is no part of a search
    search.arguments[search.arguments.index("--data_path") + 1] = str(tmp_path / "elsewhere")
    assert len(search("--trials", 2, "--max_step", 20, "--log_interval", 7, *more)["trials"]) == 2
    says = {"train.txt": "other data: .* training triples then and",
            "valid.txt": "other data: other validation triples", "test.txt": "other data: other test triples",
            "--num_proc": r"with other flags \(.*--num_proc",
            "--eval_percent": r"with other flags \(--eval_percent\)",
            "--search_seed": r"with other flags \(--search_seed\)",
            "code": r"with other flags \(--model_name\)", "tables": r"with other flags \(--init_from\)"}[change]
    if change.startswith("--"):
        more = [change, 0.2 if change == "--eval_percent" else 2]
    elif change == "code":
        source.write_text(text.replace("sum(-1)", "sum(-1) * 2"))
        sys.modules.pop("own_of_search")
    elif change == "tables":
        main(["train", "--resume", str(more[1]), "--max_step", "9", "--data_path", str(tmp_path / "elsewhere")])
    else:
        lines = (tmp_path / "elsewhere" / change).read_text().splitlines(keepends=True)
        (tmp_path / "elsewhere" / change).write_text("".join(lines[:-1]))
    capsys.readouterr()
    with refused(says):
        search("--trials", 3, "--max_step", 20, *more)


def test_flags_of_the_machine_are_in_a_recipe_where_they_change_numbers():
    numbers = dict(num_proc=2, partition="relation", lr=0.3)
    config = TrainConfig.from_flags({**numbers, "cache_ratio": 0.5, "num_thread": 3, "data_path": "x",
                                     "eval_interval": 20, "max_step": 90, "valid": True, "seed": 0})
    flags = recipe_flags(config)
    assert {name: flags[name] for name in numbers} == numbers
    assert not {"cache_ratio", "num_thread", "data_path"} & set(flags)
    assert (flags["max_step"], flags["eval_interval"], flags["valid"], flags["seed"]) == (90, 20, True, 0)
    assert numbers_flags(TrainConfig.from_flags({**flags, "early_stop_patience": 0})) == numbers_flags(config)
    on_gpu = recipe_flags(TrainConfig.from_flags({"gpu": [0, 1], "matmul": "tf32"}))
    assert on_gpu["gpu"] == [0, 1] and on_gpu["matmul"] == "tf32" and "gpu" not in flags


def test_a_space_of_the_package_on_the_small_graph(search, tmp_path, capsys, refused):
    """By sampled negatives and by all entities; the recipe is a run of the best one's variant."""
    search.arguments[0] = "complex"
    flags = ["--hidden_dim", 16, "--max_step", 40, "--eval_interval", 20, "--eval_percent", 0.1]
    with refused("--batch_size is searched by"):
        search(*flags, "--batch_size", 64)
    recipe = tmp_path / "best.yaml"
    found = search(*flags, "--variants", "all", "adversarial", "--trials", 5, "--no_prune", "--best", recipe)
    assert {trial["params"]["variant"] for trial in found["trials"]} == {"all", "adversarial"}
    for trial in found["trials"]:
        assert trial["state"] == "complete"
        own = {name.split(".")[0] for name in trial["params"] if "." in name}
        assert own == {trial["params"]["variant"]}
    best = yaml.safe_load(recipe.read_text())
    variant = found["best"]["params"]["variant"]
    assert best["lr"] == found["best"]["params"][f"{variant}.lr"]
    assert (best.get("neg_sample_size") == "all") == (variant == "all")
    assert best["max_step"] == 40 and best["eval_interval"] == 20  # as given, before those of the space's full run
    assert found["full"] == {"valid": True} and "In full" not in capsys.readouterr().out  # a run of the length given
    page = (search.out / "results.html").read_text()
    assert "all.lr" in page and "adversarial.gamma" in page and "<th>variant</th>" in page


def test_the_page_has_optuna_s_plots_where_there_is_plotly(search, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.undo()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = search("--trials", 3, "--no_prune")
    page = (search.out / "results.html").read_text()
    assert [title for title, _ in plots.PLOTS if f"<h2>{title}</h2>" in page] == [title for title, _ in plots.PLOTS]
    assert "<circle" not in page and not re.search(r'<(?:script|link)[^>]+(?:src|href)=', page)
    assert all(f"{trial['MRR']:.4f}" in page for trial in found["trials"])


def test_another_metric_decides_and_is_part_of_the_search(search, capsys, refused):
    found = search("--trials", 2, "--no_prune", "--metric", "HITS@10")
    messages = capsys.readouterr().out
    trials = found["trials"]
    assert [trial["HITS@10"] for trial in trials] == sorted((trial["HITS@10"] for trial in trials), reverse=True)
    assert f"best {found['best']['HITS@10']:.4f}" in messages and "MRR" not in found["best"]
    for trial in trials:
        (logged,) = (search.out / "trials" / str(trial["number"])).glob("*/metrics.jsonl")
        lines = [json.loads(line) for line in logged.read_text().splitlines()]
        assert [line["valid/HITS@10"] for line in lines if "valid/HITS@10" in line] == [
            value for _, value in trial["validations"]]
    with refused("with other flags (--metric)"):
        search("--trials", 3)


@pytest.mark.parametrize("name", ["tpe", "gp", "random"])
def test_samplers(name, tmp_path):
    if name == "gp":
        pytest.importorskip("scipy")
    (tmp_path / "space.yaml").write_text(SPACE)
    study = Study(tmp_path, Space.read(str(tmp_path / "space.yaml")), {}, 0, sampler=name)
    for number in range(studies.STARTUP_TRIALS + 2):
        trial = study.ask()
        assert 1e-5 <= trial.params["lr"] <= 1
        study.end(trial, "complete", [(20, 0.01 * number)], 1.0)
    assert type(study._study.sampler).__name__.lower().startswith(name)


def test_a_search_by_name_fits_the_graph_and_starts_with_preset_auto(search, monkeypatch):
    search.arguments[0] = "transe_l2"
    monkeypatch.setattr(fitting, "TRIAL_EPOCHS", 1)
    threads, start = [], searching.TrialProcess
    monkeypatch.setattr(searching, "TrialProcess", lambda *given: threads.append(given[3]) or start(*given))
    found = search("--trials", 2, "--no_prune", "--eval_percent", 0.1)
    assert threads == [1, 1]  # steps of a small graph are too short to share
    first = next(trial for trial in found["trials"] if trial["number"] == 0)
    assert first["params"]["variant"] == "all" and first["params"]["hidden_dim"] == 128
    assert {trial["params"]["variant"] for trial in found["trials"]} == {"all", "adversarial"}
    assert found["full"]["early_stop_patience"] == PATIENCE_IF_SMALL


def test_the_same_seed_searches_the_same(search, tmp_path):
    one = search("--trials", 3, "--no_prune")
    search.out, search.arguments[-1] = tmp_path / "again", str(tmp_path / "again")
    two = search("--trials", 3, "--no_prune")
    assert [(t["number"], t["params"], t["validations"]) for t in one["trials"]] == [
        (t["number"], t["params"], t["validations"]) for t in two["trials"]]


def test_more_trials_go_on_and_another_space_is_refused(search, tmp_path, capsys, refused):
    first = search("--trials", 2)
    more = search("--trials", 3)
    assert len(more["trials"]) == 3 and all(trial in more["trials"] for trial in first["trials"])
    assert "has 2 trials already" in capsys.readouterr().out
    search("--trials", 3)
    assert "trial 3" not in capsys.readouterr().out.replace("(trial 3", "")
    for arguments in ((), ("--gamma", 3)):
        if not arguments:
            (tmp_path / "space.yaml").write_text(SPACE.replace("gamma: 12", "gamma: 10"))
        with refused("has a search of another space"):
            search("--trials", 4, *arguments)
        (tmp_path / "space.yaml").write_text(SPACE.replace("gamma: 12, ", ""))


def start(search, *flags):
    process = subprocess.Popen([PYTHON, "-m", "dglke_frugal", "search", *search.arguments, *map(str, flags)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while (line := process.stdout.readline()) and not line.startswith("trial "):
        pass
    assert line, "it ended before its first trial"
    return process


def trainings(search):
    """Processes that train for this search."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as command, open(f"/proc/{pid}/stat") as state:
                if f"{search.out}/trials" in command.read() and ") Z " not in state.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_search_that_was_ended_goes_on(search, number, code):
    process = start(search, "--trials", 5, "--parallel", 2, "--no_prune")
    process.send_signal(number)
    output = process.communicate(timeout=180)[0]
    assert process.returncode == code and "Traceback" not in output
    assert number == signal.SIGKILL or "the same command goes on with" in output
    deadline = time.monotonic() + 60
    while trainings(search):
        assert time.monotonic() < deadline, "trials outlive their search"
        time.sleep(0.05)
    found = search("--trials", 5, "--parallel", 2, "--no_prune")["trials"]
    assert len(found) == 5 and all(trial["state"] == "complete" for trial in found)
    assert {0.2, 1e-5} <= {trial["params"]["lr"] for trial in found}  # none was lost
    assert len({json.dumps(trial["params"]) for trial in found}) == 5  # and none drawn twice


@pytest.mark.parametrize("number, raised", [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_in_the_middle_of_a_write_leaves_no_lock_behind(search, monkeypatch, number, raised):
    """What locks the journal is a link; the next write would wait for it."""
    link, taken, left = os.symlink, [], []

    def interrupted(target, lock, **options):
        link(target, lock, **options)
        taken.append(lock)
        if len(taken) == 12:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(os, "symlink", interrupted)
    monkeypatch.setattr(Study, "interrupt", lambda self, trial: left.append(os.path.lexists(taken[-1])))
    handler = signal.getsignal(number)
    with pytest.raises(raised):
        run_search(SearchConfig(search.out, trials=50, arguments=search.arguments[1:-2]),
                   Space.read(search.arguments[0]))
    assert left == [False] and signal.getsignal(number) is handler


def test_a_line_of_the_journal_that_was_cut_off_is_written_again(search):
    first = search("--trials", 2)["trials"]
    journal = search.out / "journal.log"
    content = journal.read_bytes()
    begun = content.rindex(b"\n", 0, -1) + 1  # of the last line
    for kept in (begun + 1, len(content) - 1):
        journal.write_bytes(content[:kept])
        found = search("--trials", 3)["trials"]
        assert len(found) == 3 and found[0] == first[0]


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_search_that_was_killed_before_it_had_begun_begins_anew(search, lines, capsys):
    """When its journal had the study, or some of the settings to begin with."""
    first = search("--trials", 1)["trials"]
    journal = search.out / "journal.log"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))
    capsys.readouterr()
    again = search("--trials", 1)["trials"]
    assert again[0]["params"] == first[0]["params"] == {"lr": 0.2, "regularization_coef": 0.0}
    assert "trials already" not in capsys.readouterr().out


def test_a_damaged_journal_is_reported(search, refused):
    search("--trials", 1)
    journal = search.out / "journal.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    for damaged in (lines[1].replace(b"{", b"[", 1), b"{}\n", b"[1, 2]\n", b"7\n"):
        journal.write_bytes(b"".join([lines[0], damaged, *lines[2:]]))
        with refused(f"{journal}, line 2 is damaged"):
            search("--trials", 2)


def test_a_journal_that_cannot_be_written_ends_the_search_and_all_its_trials(search, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ended, stop = set(), TrialProcess.stop
    monkeypatch.setattr(TrialProcess, "stop", lambda self: (ended.add(self), stop(self)))
    with monkeypatch.context() as disk, pytest.raises(SystemExit) as stopped:
        disk.setattr(Study, "end", full)
        disk.setattr(Study, "interrupt", full)
        search("--trials", 9, "--parallel", 3)
    assert stopped.value.code == 2 and len(ended) == 3 and all(process.has_ended for process in ended)
    assert "No space left on device; free some space or make it writable, and give" in capsys.readouterr().err
    assert len(search("--trials", 3)["trials"]) == 3


def test_a_trial_that_fails_on_a_full_disk_is_tried_again(search, monkeypatch, capsys):
    with monkeypatch.context() as disk, pytest.raises(SystemExit):
        disk.setattr(TrialProcess, "result", lambda self: None)
        disk.setattr(searching.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        search("--trials", 1)
    assert "No space left on device; free some space or make it writable, and give" in capsys.readouterr().err
    assert [trial["state"] for trial in search("--trials", 1)["trials"]] == ["complete"]


def test_two_searches_in_one_folder_are_refused(search, refused):
    process = start(search, "--trials", 50)
    try:
        with refused("another process is searching in"):
            search("--trials", 1)
    finally:
        process.terminate()
        process.communicate(timeout=180)


def test_a_trial_below_the_median_is_pruned(tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    study = Study(tmp_path, Space.read(str(tmp_path / "space.yaml")), {}, 0)
    for _ in range(studies.UNPRUNED_TRIALS):
        trial = study.ask()
        assert not any(study.report(trial, number, 0.1 * number) for number in (1, 2, 3))
        study.end(trial, "complete", [(20, 0.1), (40, 0.2), (60, 0.3)], 1.0)
    trial = study.ask()
    assert not study.report(trial, 1, 0.01) and study.report(trial, 2, 0.02)
    study.end(trial, "pruned", [(20, 0.01), (40, 0.02)], 1.0)
    trial = study.ask()
    assert not any(study.report(trial, number, 0.11 * number) for number in (1, 2, 3))
    study.end(trial, "complete", [(60, 0.33)], 1.0)
    again = Study(tmp_path, Space.read(str(tmp_path / "space.yaml")), {}, 0)
    assert again.best.value == 0.33 and [each.state for each in again.tried.values()].count("pruned") == 1


def test_pruned_trials_end_early(search):
    """The second half of the range learns nothing; a trial takes longer than to say that it ends."""
    space = SPACE.replace("start:", "start:\n  - {lr: 0.3}\n  - {lr: 0.25}\n  - {lr: 0.22}\n  - {lr: 0.21}")
    (search.out.parent / "space.yaml").write_text(space.replace("max_step: 60", "max_step: 4000"))
    found = {trial["number"]: trial for trial in search("--trials", 6, "--parallel", 2, "--max_step", 2000)["trials"]}
    (pruned,) = [trial for trial in found.values() if trial["params"]["lr"] == 1e-5]
    assert pruned["state"] == "pruned" and len(pruned["validations"]) < 100
    assert all(len(trial["validations"]) == 100 for trial in found.values() if trial["state"] == "complete")


def test_failures_are_reported_and_end_a_search_that_has_nothing_else(
        search, capsys, refused, tmp_path, small):  # noqa: F811
    (tmp_path / "space.yaml").write_text(SPACE.replace("{low: 1.0e-5, high: 1.0, log: true}", "[1.0e+30, 0.2]")
                                         .replace("lr: 0.2", "lr: 1.0e+30").replace("lr: 1.0e-5", "lr: 0.2"))
    found = search("--trials", 2)
    by_state = {trial["state"]: trial for trial in found["trials"]}
    assert "the training has diverged" in by_state["failed"]["failed"] and by_state["complete"]["MRR"] > 0
    assert found["best"] == by_state["complete"]
    assert "the training has diverged" in (search.out / "results.html").read_text()
    search.arguments[-1], search.out = str(tmp_path / "other"), tmp_path / "other"
    at = search.arguments.index("--data_path") + 1
    search.arguments[at] = str(tmp_path / "nowhere")
    with refused("nowhere/train.txt does not exist"):
        search("--trials", 20)
    assert not search.out.exists()
    search.arguments[at] = str(small)
    (tmp_path / "space.yaml").write_text(SPACE.replace("{low: 1.0e-5, high: 1.0, log: true}", "[1.0e+30, 2.0e+30]")
                                         .replace("lr: 0.2", "lr: 1.0e+30").replace("lr: 1.0e-5", "lr: 2.0e+30"))
    with pytest.raises(SystemExit) as stopped:
        search("--trials", 20)
    messages = capsys.readouterr().err
    assert stopped.value.code == 2 and "all 3 trials failed" in messages and "the training has diverged" in messages
    (tmp_path / "space.yaml").write_text(SPACE)  # nothing is lost by another space
    found = search("--trials", 1)["trials"]
    assert [trial["state"] for trial in found] == ["complete"] and found[0]["params"]["lr"] == 0.2
    assert "have failed; starting anew" in capsys.readouterr().out


@pytest.mark.parametrize("flags, says", [
    (["--trials", 0], "--trials is 0"),
    (["--parallel", 0], "--parallel is 0"),
    (["--seconds", 0], "--seconds is 0.0"),
    (["--lr", 0.1], "--lr is searched by"), (["--max_epoch", 3], "trials by steps; give --max_step"),
    (["--seed", 1], "--seed of a search is --search_seed"),
    (["--resume", "x"], "--resume is of one run"),
    (["--backend", "vanilla"], "--backend frugal"),
    (["--hiden_dim", 3], "there is no flag --hiden_dim"),
    (["--neg_sample_size", 0], "--neg_sample_size is 0"),
    (["--eval_interval", 61], "--eval_interval 61 is more than --max_step 60, so trials would have no validation"),
    (["--data_files", "train.txt"], "--valid needs triples that small does not have; give them"),
    (["--trials", 10**30], "--trials is 1000"),
    (["--search_seed", -1], "--search_seed is -1"),
    (["--seconds", "nan"], "--seconds is nan")])
def test_what_a_search_refuses(search, refused, flags, says):
    with refused(says):
        search(*flags)
    assert not search.out.exists()


def test_without_optuna_it_says_what_to_install(search):
    code = ("import sys; sys.modules['optuna'] = None\n"
            "from dglke_frugal.cli.main import main\nmain(['search', *sys.argv[1:]])")
    done = subprocess.run([PYTHON, "-c", code, *search.arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert install_command("search") in done.stderr and len(done.stderr.splitlines()) == 1


def test_no_trial_starts_after_the_time_is_up(search, monkeypatch):
    """The time is not up when the search looks first, and is when it looks next."""
    clock = itertools.chain([0.0, 0.9], itertools.repeat(1.0))
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep))
    assert len(search("--trials", 100, "--seconds", 1)["trials"]) == 1


@pytest.mark.parametrize("ends", [True, False])
def test_a_validation_that_is_no_number_fails_the_trial(search, monkeypatch, ends):
    """However the run ends, and although its first validation is the best of all."""
    class Diverging:
        def __init__(self, folder, flags, arguments, threads, metric):
            self.validations, self.seconds, self.has_ended = [], 1.0, ends
            self._bad = flags["lr"] != 0.2

        def new_validations(self):
            self.validations = [(20, 0.9), (40, float("nan"))] if self._bad else [(20, 0.1)]
            self.has_ended |= not self._bad
            return self.validations

        def result(self):
            return {}

        def stop(self):
            pass

    monkeypatch.setattr(searching, "TrialProcess", Diverging)
    study = run_search(SearchConfig(search.out, trials=3), Space.read(search.arguments[0]))
    assert [study.tried[number].state for number in range(3)] == ["complete", "failed", "failed"]
    assert "diverged" in study.tried[1].failed and study.best.number == 0
    assert json.loads((search.out / "results.json").read_text())["best"]["number"] == 0


@pytest.mark.parametrize("given, says", [
    (dict(out=None), "--out is None; give a path"),
    (dict(trials=2.5), "--trials is 2.5"),
    (dict(parallel="2"), "--parallel is '2'"),
    (dict(seconds="1"), "--seconds is '1'"),
    (dict(seed=-1), "--search_seed is -1"),
    (dict(prune="no"), "prune is 'no'; give True or False"),
    (dict(arguments="--gpu 0"), "give a list of words")])
def test_what_a_search_in_python_refuses(tmp_path, given, says):
    with pytest.raises(InputError, match=says):
        SearchConfig(**{"out": str(tmp_path), **given})
    assert SearchConfig(str(tmp_path)).out == tmp_path
