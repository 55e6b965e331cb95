"""Searches on a small graph: what is best is found and written, bad trials are pruned, a killed search goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from training.conftest import small  # noqa: F401 (a fixture)

from dglke_frugal.cli.main import main
from dglke_frugal.extras import install_command
from dglke_frugal.search import study as studies
from dglke_frugal.search.run_search import SearchConfig, run_search
from dglke_frugal.search.space import Space
from dglke_frugal.search.study import Study

pytest.importorskip("optuna")

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


@pytest.fixture
def search(small, tmp_path, monkeypatch):  # noqa: F811
    """Starts the command on the small graph; returns its arguments, with a function to run them in this process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
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
    said = capsys.readouterr().out
    trials = found["trials"]
    assert sorted(trial["number"] for trial in trials) == [0, 1, 2, 3]
    assert [trial["MRR"] for trial in trials] == sorted((trial["MRR"] for trial in trials), reverse=True)
    by_number = {trial["number"]: trial for trial in trials}
    assert by_number[0]["params"] == {"lr": 0.2, "regularization_coef": 0.0} and by_number[1]["params"]["lr"] == 1e-5
    assert by_number[0]["MRR"] > 3 * by_number[1]["MRR"] and found["best"] == trials[0]
    for trial in trials:
        assert [step for step, _ in trial["validations"]] == [20, 40, 60] and trial["state"] == "complete"
        assert trial["MRR"] == max(mrr for _, mrr in trial["validations"])
    assert f"best {found['best']['MRR']:.4f} (trial {found['best']['number']})" in said
    flags = yaml.safe_load(recipe.read_text())
    assert flags["lr"] == found["best"]["params"]["lr"] and flags["max_step"] == 90 and flags["test"] is True
    assert flags["dataset"] == "small" and not {"data_path", "save_path", "no_save_emb", "valid"} & set(flags)
    assert re.search(r"trial \d, the best of 4", recipe.read_text())
    main(["train", "--config", str(recipe), "--data_path", search.arguments[search.arguments.index("--data_path") + 1],
          "--save_path", str(tmp_path / "runs")])
    assert json.loads((tmp_path / "runs" / "DistMult_small_0" / "result.json").read_text())["steps"] == 90


def test_a_space_of_the_package_on_the_small_graph(search, tmp_path, capsys):
    """By sampled negatives and by all entities; the recipe is a run of the best one's variant."""
    search.arguments[0] = "complex"
    flags = ["--hidden_dim", 16, "--max_step", 40, "--eval_interval", 20, "--eval_percent", 0.1]
    with pytest.raises(SystemExit):
        search(*flags, "--batch_size", 64)
    assert "--batch_size is searched by" in capsys.readouterr().err
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
    assert best["max_step"] == {"all": 40000, "adversarial": 30000}[variant]
    page = (search.out / "results.html").read_text()
    assert "all.lr" in page and "adversarial.gamma" in page and "<th>variant</th>" in page


def test_the_page_shows_all_and_asks_for_nothing(search):
    found = search("--trials", 3, "--no_prune")
    page = (search.out / "results.html").read_text()
    assert page.count("<figure>") == 3 and page.count("<circle") >= 9  # trials, lr, regularization_coef
    for trial in found["trials"]:
        assert f"trial {trial['number']}: {trial['MRR']:.4f}" in page
    assert "<script" not in page and not re.search(r'(?:src|href)="', page)


def test_the_same_seed_searches_the_same(search, tmp_path):
    one = search("--trials", 4, "--no_prune")
    search.out, search.arguments[-1] = tmp_path / "again", str(tmp_path / "again")
    two = search("--trials", 4, "--no_prune")
    assert [(t["number"], t["params"], t["validations"]) for t in one["trials"]] == [
        (t["number"], t["params"], t["validations"]) for t in two["trials"]]


def test_more_trials_go_on_and_another_space_is_refused(search, tmp_path, capsys):
    first = search("--trials", 2)
    more = search("--trials", 3)
    assert len(more["trials"]) == 3 and all(trial in more["trials"] for trial in first["trials"])
    assert "has 2 trials already" in capsys.readouterr().out
    search("--trials", 3)
    assert "trial 3" not in capsys.readouterr().out.replace("(trial 3", "")
    for arguments in ((), ("--gamma", 3)):
        if not arguments:
            (tmp_path / "space.yaml").write_text(SPACE.replace("gamma: 12", "gamma: 10"))
        with pytest.raises(SystemExit) as stopped:
            search("--trials", 4, *arguments)
        assert stopped.value.code == 2 and "has a search of another space" in capsys.readouterr().err
        (tmp_path / "space.yaml").write_text(SPACE.replace("gamma: 12, ", ""))


def start(search, *flags):
    process = subprocess.Popen([sys.executable, "-m", "dglke_frugal", "search", *search.arguments, *map(str, flags)],
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


def test_two_searches_in_one_folder_are_refused(search, capsys):
    process = start(search, "--trials", 50)
    try:
        with pytest.raises(SystemExit) as stopped:
            search("--trials", 1)
        assert stopped.value.code == 2 and "another process is searching in" in capsys.readouterr().err
    finally:
        process.terminate()
        process.communicate(timeout=180)


def test_a_trial_below_the_median_is_pruned(tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    study = Study(tmp_path, Space.read(str(tmp_path / "space.yaml")), {}, 0)
    for _ in range(studies.UNPRUNED_TRIALS):
        trial, _ = study.ask()
        assert not any(study.report(trial, number, 0.1 * number) for number in (1, 2, 3))
        study.end(trial, "complete", [(20, 0.1), (40, 0.2), (60, 0.3)], 1.0)
    trial, _ = study.ask()
    assert not study.report(trial, 1, 0.01) and study.report(trial, 2, 0.02)
    study.end(trial, "pruned", [(20, 0.01), (40, 0.02)], 1.0)
    trial, _ = study.ask()
    assert not any(study.report(trial, number, 0.11 * number) for number in (1, 2, 3))
    study.end(trial, "complete", [(60, 0.33)], 1.0)
    again = Study(tmp_path, Space.read(str(tmp_path / "space.yaml")), {}, 0)
    assert again.best.mrr == 0.33 and [each.state for each in again.tried.values()].count("pruned") == 1


def test_pruned_trials_end_early(search):
    """The second half of the range learns nothing; a trial takes longer than to say that it ends."""
    space = SPACE.replace("start:", "start:\n  - {lr: 0.3}\n  - {lr: 0.25}\n  - {lr: 0.22}\n  - {lr: 0.21}")
    (search.out.parent / "space.yaml").write_text(space.replace("max_step: 60", "max_step: 4000"))
    found = {trial["number"]: trial for trial in search("--trials", 6, "--parallel", 2, "--max_step", 2000)["trials"]}
    (pruned,) = [trial for trial in found.values() if trial["params"]["lr"] == 1e-5]
    assert pruned["state"] == "pruned" and len(pruned["validations"]) < 100
    assert all(len(trial["validations"]) == 100 for trial in found.values() if trial["state"] == "complete")


def test_failures_are_said_and_end_a_search_that_has_nothing_else(search, capsys, tmp_path, small):  # noqa: F811
    (tmp_path / "space.yaml").write_text(SPACE.replace("{low: 1.0e-5, high: 1.0, log: true}", "[1.0e+30, 0.2]")
                                         .replace("lr: 0.2", "lr: 1.0e+30").replace("lr: 1.0e-5", "lr: 0.2"))
    found = search("--trials", 2)
    by_state = {trial["state"]: trial for trial in found["trials"]}
    assert "the training has diverged" in by_state["failed"]["failed"] and by_state["complete"]["MRR"] > 0
    assert found["best"] == by_state["complete"]
    assert "the training has diverged" in (search.out / "results.html").read_text()
    (tmp_path / "space.yaml").write_text(SPACE)
    search.arguments[-1] = str(tmp_path / "other")
    at = search.arguments.index("--data_path") + 1
    search.arguments[at] = str(tmp_path / "nowhere")
    with pytest.raises(SystemExit) as stopped:
        search("--trials", 20)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and "all 3 trials failed" in said and "nowhere" in said
    search.arguments[at], search.out = str(small), tmp_path / "other"  # where the data are is no part of a search
    found = search("--trials", 1)["trials"]
    assert [trial["state"] for trial in found] == ["complete"] and found[0]["params"]["lr"] == 0.2
    assert "have failed; starting anew" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--trials", 0], "--trials is 0"),
        (["--parallel", 0], "--parallel is 0"),
        (["--seconds", 0], "--seconds is 0.0"),
        (["--lr", 0.1], "--lr is searched by"),
        (["--seed", 1], "--seed of a search is --search_seed"),
        (["--resume", "x"], "--resume is of one run"),
        (["--backend", "vanilla"], "--backend frugal"),
        (["--hiden_dim", 3], "there is no flag --hiden_dim"),
        (["--neg_sample_size", 0], "--neg_sample_size is 0"),
    ],
)
def test_what_a_search_refuses(search, capsys, flags, says):
    with pytest.raises(SystemExit) as stopped:
        search(*flags)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and says in said and len(said.splitlines()) == 1
    assert not search.out.exists()


def test_without_optuna_it_says_what_to_install(search):
    code = ("import sys; sys.modules['optuna'] = None\n"
            "from dglke_frugal.cli.main import main\nmain(['search', *sys.argv[1:]])")
    done = subprocess.run([sys.executable, "-c", code, *search.arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert install_command("search") in done.stderr and len(done.stderr.splitlines()) == 1


def test_no_trial_starts_after_the_time_is_up(search):
    assert 1 <= len(search("--trials", 100, "--seconds", 0.5)["trials"]) <= 2
