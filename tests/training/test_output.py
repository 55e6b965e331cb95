"""A training whose output goes nowhere is trained all the same: closed and full outputs, readers and terminals that
went."""

import io
import os
import pty
import subprocess
import sys
import time

import pytest
from training.conftest import tables

from dglke_frugal.output import log

LONG = ["--max_step", 400, "--log_interval", 1]  # more output than pipes and buffers hold


def command(arguments):
    return [sys.executable, "-m", "dglke_frugal", "train", *arguments]


@pytest.fixture
def expected(runs):
    return tables(runs(*LONG))


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>&1"])
def test_closed_and_full(runs, expected, redirection):
    arguments, folder = runs.arguments(*LONG)
    done = subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", *command(arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert tables(folder) == expected
    messages = [line for line in done.stderr.splitlines() if "cannot be written" in line]
    assert len(messages) == (redirection == ">/dev/full") and "Traceback" not in done.stderr
    assert "average loss" not in "".join(path.read_text() for path in folder.glob("*.json*"))


def test_a_reader_that_went(runs, expected):
    arguments, folder = runs.arguments(*LONG)
    with subprocess.Popen(command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 0 and error.count("standard output cannot be written (Broken pipe)") == 1
    assert tables(folder) == expected


def test_a_terminal_that_went(runs):
    """Its processes get SIGHUP, twice as from a shell, and nothing more can be printed."""
    arguments, folder = runs.arguments("--max_step", 10**7, "--log_interval", 20)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, command(arguments))
    shown = b""
    while b"[Train](40/" not in shown:  # a read may end within a line
        shown += os.read(terminal, 10000)
    os.close(terminal)
    deadline = time.monotonic() + 180
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended[0] == child and os.waitstatus_to_exitcode(ended[1]) == 129
    (checkpoint,) = folder.glob("checkpoints/step-*")
    assert int(checkpoint.name[5:]) >= 40


def test_ranks_whose_output_goes_nowhere(runs):
    flags = ["--max_step", 60, "--log_interval", 1, "--num_proc", 2]
    expected = tables(runs(*flags))
    arguments, folder = runs.arguments(*flags)
    done = subprocess.run(["sh", "-c", 'exec "$@" >/dev/full', "sh", *command(arguments)], stderr=subprocess.PIPE,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert tables(folder) == expected


class _Pipe(io.StringIO):
    """An output that is not buffered: keeps what each write brought."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def write(self, text):
        self.writes.append(text)
        return len(text)


def test_a_line_of_the_log_is_one_write(monkeypatch):
    """Several ranks have one standard output, and with PYTHONUNBUFFERED each write goes there at once."""
    pipe = _Pipe()
    monkeypatch.setattr(sys, "stdout", pipe)
    log("[proc 1][Train](30/30) average pos_loss: 0.5")
    assert pipe.writes == ["[proc 1][Train](30/30) average pos_loss: 0.5\n"]


def test_the_lines_of_a_run_are_one_write_each(monkeypatch, runs):
    pipe = _Pipe()
    monkeypatch.setattr(sys, "stdout", pipe)
    runs("--max_step", 20, "--log_interval", 10)
    logged = [text for text in pipe.writes if "[Train]" in text or text.startswith("proc 0")]
    assert len(logged) > 8 and all(text.endswith("\n") for text in logged)
