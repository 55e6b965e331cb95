"""A path that the system refuses to look at, in a folder that this user may not enter or too long, is one sentence; and
so is a disk that is full for what a command prints."""
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dglke_frugal
from dglke_frugal.cli.main import main
from dglke_frugal.data import load_graph
from dglke_frugal.errors import InputError

LONG = "x" * 300
SMALL = ["--model_name", "DistMult", "--hidden_dim", "4", "--max_step", "2", "--dataset", "g",
         "--format", "raw_udd_hrt"]
COMMANDS = {"data_path": ["train", *SMALL, "--data_files", "train.txt", "--data_path", "PATH"],
            "data_files": ["train", *SMALL, "--data_path", ".", "--data_files", "PATH"],
            "save_path": ["train", *SMALL, "--data_path", ".", "--data_files", "train.txt", "--save_path", "PATH"],
            "init_from": ["train", *SMALL, "--data_path", ".", "--data_files", "train.txt", "--init_from", "PATH"],
            "resume": ["train", "--resume", "PATH"],
            "eval": ["eval", "--model_path", "PATH"],
            "predict": ["predict", "--model_path", "PATH", "--format", "h_r_t", "--data_files", "h", "r", "t"],
            "split": ["split", "PATH"],
            "export": ["export", "PATH", "out.npz"],
            "compare": ["compare", "PATH"],
            "report": ["report", "PATH"],
            "plan": ["plan", *SMALL, "--data_files", "train.txt", "--data_path", "PATH"]}


@pytest.fixture(params=[LONG, "closed/x"], ids=["long", "closed"])
def path(request, tmp_path, monkeypatch):
    """A refused path; the folder `closed` is so for root, too, who runs some tests."""
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    genuine = os.stat

    def stat(place, *rest, **named):
        if isinstance(place, (str, os.PathLike)) and "closed/" in os.fspath(place):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(place))
        return genuine(place, *rest, **named)

    monkeypatch.setattr(os, "stat", stat)
    return request.param


@pytest.mark.parametrize("name", COMMANDS)
def test_of_a_command(path, refused, name):
    with refused("; "):
        main([path if each == "PATH" else each for each in COMMANDS[name]])
    assert os.listdir() == ["train.txt"]


@pytest.mark.parametrize("call", [
    dglke_frugal.load,
    lambda path: dglke_frugal.train(path, max_step=2),
    lambda path: dglke_frugal.train("train.txt", save_path=path, max_step=2),
    lambda path: dglke_frugal.train(resume=path),
    lambda path: load_graph("g", path, "raw_udd_hrt", ["train.txt"]),
], ids=["load", "train", "save_path", "resume", "load_graph"])
def test_from_python(path, call):
    with pytest.raises(InputError, match="; "):
        call(path)


@pytest.mark.parametrize("closing, says", [("", "No space left on device; free some space\n"), ("2>&-", "")])
def test_of_standard_output_and_error(closing, says):
    """The exit code stays where there is nowhere to write a sentence."""
    command = f"{sys.executable} -m dglke_frugal presets > /dev/full {closing}"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.endswith(says) and "Traceback" not in done.stderr


@pytest.mark.parametrize("given", [["plan", "--entities", "100"], ["plan", "--entities", "100", "--json"],
                                   ["plan", "--nnodes", "2", "--entities", "100"], ["doctor"]])
def test_a_standard_output_that_is_closed(given, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    main(given)  # which would raise


def test_a_current_folder_that_is_gone(tmp_path):
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    flags = " ".join([*SMALL, "--data_path", str(tmp_path), "--data_files", "train.txt"])
    command = f"mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m dglke_frugal train {flags}"
    here = Path(dglke_frugal.__file__).parents[1]
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(here)})
    assert done.returncode == 2 and done.stderr.endswith("the current folder has been removed; change to one that is "
                                                         "there\n"), done.stderr
    assert done.stderr.count("\n") == 1
