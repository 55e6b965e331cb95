"""A rank that dies or throws stops all others, and nothing stays behind; the last checkpoint goes on."""

import os
import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from training.parallel.conftest import LONG, SLOW_FROM_STEP_21, assert_gone, assert_same, workers, trained, wait_for

from dglke_frugal.training.processes.launch import OwnProcesses

def finish(process, others):
    output, _ = process.communicate(timeout=180)
    assert_gone(others.values())
    return output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_rank_that_is_killed_stops_all(ranks, number):
    process, _, others = ranks.begin("--num_proc", 3)
    os.kill(others[2], number)
    output = finish(process, others)
    assert process.returncode == 1
    assert "Rank 2" in output.splitlines()[-1] and f"has ended by {number.name}" in output.splitlines()[-1]


@pytest.mark.parametrize("sentence, explained", [
    ("Rank 2 has ended.", "Rank 2 has ended by SIGKILL"),
    ("Rank 2 (process 71) has ended.", "Rank 2 (process 71) has ended by SIGKILL"),
    ("Rank 1 stopped: Rank 2 (process 71) has ended.", "Rank 1 stopped: Rank 2 (process 71) has ended by SIGKILL"),
    ("Rank 0 (process 70) has ended.", "Rank 0 (process 70) has ended."),
    ("Rank 1 stopped: the disk is on fire", "Rank 1 stopped: the disk is on fire")])
def test_the_end_of_a_rank_is_its_own_whoever_says_so(monkeypatch, sentence, explained):
    children = {1: SimpleNamespace(end=lambda: "with exit code 1"), 2: SimpleNamespace(end=lambda: "by SIGKILL")}
    processes = OwnProcesses(3)
    monkeypatch.setattr(processes, "_children", children)
    assert processes.explain(sentence) == explained


def test_no_rank_outlives_rank_0(ranks):
    process, _, others = ranks.begin("--num_proc", 3)
    process.kill()
    finish(process, others)


@pytest.mark.parametrize("thrower", [0, 1])
def test_a_rank_that_throws_stops_all_with_its_message(ranks, thrower):
    arguments, _ = ranks.arguments("--num_proc", 3, *LONG)
    process = ranks.start(arguments,
                          suffering=f"if rank == {thrower} and step == 200: raise RuntimeError('the disk is on fire')")
    wait_for(process, "[proc 2][Train](20/")
    others = workers(process.pid)
    output = finish(process, others)
    assert process.returncode == 1
    assert "the disk is on fire" in output.splitlines()[-1]


@pytest.mark.parametrize("thrower", [0, 1])
@pytest.mark.parametrize("error, messages", [("MemoryError('std::bad_alloc')", "this process can have no more "
                                                                               "memory; "),
                                         ('RuntimeError("can\'t start new thread")', "this process no more threads; "),
                                         ("OSError(24, 'Too many open files')", "can have no more open files; ")])
def test_a_rank_that_lacks_something_ends_all_as_one_process_ends(ranks, thrower, error, messages):
    arguments, _ = ranks.arguments("--num_proc", 2, *LONG)
    process = ranks.start(arguments, suffering=f"if rank == {thrower} and step == 9: raise {error}",
                          interpreter=ranks.interpreter)
    output = finish(process, {})
    assert process.returncode == 2 and messages in output.splitlines()[-1] and "Traceback" not in output


def test_a_rank_whose_libraries_do_not_fit_into_memory_says_so(ranks):
    arguments, folder = ranks.arguments("--num_proc", 2, *LONG)
    refuse = """
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.endswith("train_ranks"):
            raise ImportError("x.so: failed to map segment from shared object")
if rank == 1:
    sys.meta_path.insert(0, Refuse())
"""
    process = ranks.start(arguments, suffering="pass", first=refuse)
    output = finish(process, {})
    assert process.returncode == 2 and "Traceback" not in output
    messages = "Rank 1 has ended with exit code 2; it said last: this process can have no more memory"
    assert messages in output.splitlines()[-1]
    assert not folder.exists()  # as that of one process that is refused before its first step


def test_a_rank_that_cannot_start_is_reported(ranks):
    arguments, _ = ranks.arguments("--num_proc", 2, *LONG)
    process = ranks.start(arguments, first="if rank == 1: os._exit(7)", interpreter=ranks.interpreter)
    output = finish(process, {})
    assert process.returncode == 1 and "Rank 1" in output.splitlines()[-1]


def test_the_last_line_of_a_rank_is_reported(ranks):
    arguments, _ = ranks.arguments("--num_proc", 2, *LONG)
    last_words = "if rank == 1: os.write(2, b'so many words\\nno libmagic.so'); os._exit(7)"
    process = ranks.start(arguments, first=last_words, interpreter=ranks.interpreter)
    output = finish(process, {})
    assert process.returncode == 1 and "so many words\n" in output
    assert output.splitlines()[-1] == ("dglke_train: Rank 1 has ended with exit code 7; it said last: no libmagic.so")


def test_ranks_run_the_package_of_rank_0(ranks, tmp_path):
    """The current folder may hold another checkout of this project."""
    other, script = tmp_path / "other" / "dglke_frugal", tmp_path / "bin" / "dglke_train"
    other.mkdir(parents=True)
    script.parent.mkdir()
    (other / "__init__.py").write_text("raise RuntimeError('the package of the current folder')")
    script.write_text("from dglke_frugal.cli.train import main\nmain()")  # as pip writes it
    arguments, folder = ranks.arguments("--num_proc", 2, "--max_step", 7)
    done = subprocess.run([sys.executable, script, *arguments], cwd=other.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same(trained(folder), ranks.oracle(folder, "--num_proc", 2, steps=7))


def test_what_a_killed_run_lacks_is_made_up_from_its_checkpoint(ranks):
    given = ["--num_proc", 2, "--checkpoint_interval", 7]
    process, folder, others = ranks.begin(*given, suffering=SLOW_FROM_STEP_21)
    os.kill(random.choice([process.pid, *others.values()]), signal.SIGKILL)
    finish(process, others)
    done = max(int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*"))
    ranks.run("--max_step", done + 11, "--flush_threads", 3, "--cache_ratio", 0.4, "--lookahead", 4, resume=folder)
    assert_same(trained(folder), ranks.oracle(folder, *given, steps=done + 11))


@pytest.mark.parametrize("whom, number", [("all", signal.SIGINT), ("one", signal.SIGTERM)])
def test_an_interrupt_of_any_rank_stops_all_after_the_same_step(ranks, whom, number):
    process, folder, others = ranks.begin("--num_proc", 3, suffering=SLOW_FROM_STEP_21)
    if whom == "all":
        os.killpg(process.pid, number)  # as a terminal's Ctrl-C
    else:
        os.kill(others[1], number)
    output = finish(process, others)
    assert process.returncode == 128 + number, output
    assert "go on with: dglke_train --resume" in output
    (checkpoint,) = (folder / "checkpoints").glob("step-*")
    steps = int(checkpoint.name[5:]) + 5
    ranks.run("--max_step", steps, resume=folder)
    assert_same(trained(folder), ranks.oracle(folder, "--num_proc", 3, steps=steps))


def test_a_training_that_diverges_is_reported_to(ranks):
    arguments, _ = ranks.arguments("--num_proc", 2, *LONG, "--lr", "1e30")
    process = ranks.start(arguments, interpreter=ranks.interpreter)
    output = finish(process, {})
    assert process.returncode == 2 and output.count("the training has diverged") == 1


def test_early_stopping_stops_all_ranks(ranks):
    folder, output = ranks.run("--num_proc", 2, "--max_step", 1000, "--valid", "--eval_interval", 5, "--eval_percent",
                               0.05, "--early_stop_patience", 1, "--lr", 1e-9, "--test")
    assert "stopping early: 1 validations without a better MRR" in output and "[0]Test average MRR" in output
    assert (folder / "small_TransE_l2_entity.npy").is_file()
