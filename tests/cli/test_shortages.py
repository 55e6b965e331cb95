"""No more memory, threads or open files is a sentence: of commands, from Python, and in several processes."""
import errno
import os
import threading

import numpy as np
import pytest
import torch
from training.conftest import runs, small  # noqa: F401

import dglke_frugal
from dglke_frugal import _native
from dglke_frugal.cli.errors import reports_input_errors
from dglke_frugal.errors import InputError, shortage
from dglke_frugal.training.processes import launch, rank_child
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder
from dglke_frugal.training.processes.launch import OwnProcesses
from dglke_frugal.training.run.loop import TrainingLoop
from dglke_frugal.training.tables.tables import Tables


def too_large_array():
    np.empty(1 << 60, np.uint8)


def too_large_tensor():
    torch.empty(1 << 60, dtype=torch.uint8)


def raises(error):
    def call():
        raise error

    return call


def wrapped():
    try:
        raise ImportError("libopenblas.so: failed to map segment from shared object")
    except ImportError as error:
        raise ImportError("IMPORTANT: PLEASE READ THIS") from error


@pytest.mark.parametrize("call, messages", [
    (too_large_array, "no more memory"),
    (too_large_tensor, "no more memory"),
    (raises(MemoryError("std::bad_alloc")), "no more memory"),
    (raises(SystemError("error return without exception set")), "no more memory"),  # of an import
    (raises(SystemError("<function _find_and_load> returned NULL without setting an exception")), "no more memory"),
    (raises(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))), "no more memory"),
    (raises(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")), "the GPU has no more memory"),
    (wrapped, "no more memory"),
    (raises(OSError(errno.EMFILE, os.strerror(errno.EMFILE))), "no more open files"),
    (raises(OSError(errno.ENFILE, os.strerror(errno.ENFILE))), "no more open files"),
    (raises(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))), "no more threads"),  # of fork
    (raises(RuntimeError("can't start new thread")), "no more threads"),
    (raises(_native.ThreadShortage("The system gives this process no more threads.")), "no more threads")])
def test_a_command_says_what_there_is_no_more_of(call, messages, refused):
    with refused(messages, "; "):
        reports_input_errors(lambda arguments: call())([])


@pytest.mark.parametrize("error", [RuntimeError("the disk is on fire"), OSError(errno.EIO, "input/output error"),
                                   ImportError("no module named x"), ValueError("no more memory"),
                                   SystemError("unknown opcode")])
def test_other_errors_stay_errors(error):
    assert shortage(error) is None
    with pytest.raises(type(error)):
        reports_input_errors(lambda arguments: raises(error)())([])


def test_ctrl_c_while_modules_are_read_is_no_error(capsys):
    """Python 3.11 raises RuntimeError from it where it comes while a class is made."""
    def call():
        raise RuntimeError("Error calling __set_name__ on 'cached_property'") from KeyboardInterrupt()

    for interrupted in (raises(KeyboardInterrupt()), call):
        with pytest.raises(SystemExit) as ended:
            reports_input_errors(lambda arguments, interrupted=interrupted: interrupted())([])
        assert ended.value.code == 130 and capsys.readouterr().err == "stopped\n"


def after_three_steps(monkeypatch, error):
    steps = TrainingLoop.__iter__

    def some(self):
        for number, losses in enumerate(steps(self), 1):
            yield losses
            if number == 3:
                raise error

    monkeypatch.setattr(TrainingLoop, "__iter__", some)


@pytest.mark.parametrize("flags", [[], ["--optimizer", "adam"]], ids=["csrc", "torch"])
@pytest.mark.parametrize("error", [MemoryError("std::bad_alloc"),
                                   RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")])
def test_memory_that_runs_out_in_a_step(runs, monkeypatch, refused, flags, error):  # noqa: F811
    """The checkpoint of an earlier step stays."""
    arguments, folder = runs.arguments("--max_step", 9, "--checkpoint_interval", 2, *flags)
    after_three_steps(monkeypatch, error)
    from dglke_frugal.cli.train import main

    with refused("this process can have no more memory; use a smaller"):
        main(arguments)
    assert CheckpointFolder(folder / "checkpoints").last().step == 2


def test_from_python_it_is_an_input_error(runs, monkeypatch):  # noqa: F811
    after_three_steps(monkeypatch, MemoryError())
    flags = dict(dataset="small", format="raw_udd_hrt", data_files=["train.txt"], model_name="TransE_l2", hidden_dim=8,
                 data_path=str(runs._data), save_path=str(runs.folder), max_step=9)
    with pytest.raises(InputError, match="no more memory"):
        dglke_frugal.train(**flags)


def test_a_table_that_cannot_be_had_is_an_input_error(monkeypatch, runs, refused):  # noqa: F811
    monkeypatch.setattr(Tables, "create", classmethod(lambda *_, **__: raises(MemoryError())()))
    with refused("no more memory"):
        runs("--max_step", 3)


@pytest.mark.parametrize("what", ["thread", "process", "socket"])
def test_processes_that_cannot_be_started_leave_none(monkeypatch, what):
    """The second of two: the first is ended."""
    started = []

    class Started(rank_child.subprocess.Popen):
        def __init__(self, *arguments, **named):
            if what == "process" and started:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            super().__init__(*arguments, **named)
            started.append(self)

    class Refused(threading.Thread):
        def start(self):
            if len(started) > 1:
                raise RuntimeError("can't start new thread")
            super().start()

    sockets = []

    def pipe():
        sockets.append(None)
        if what == "socket" and len(sockets) > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return original_pipe()

    original_pipe = launch.Pipe
    monkeypatch.setattr(rank_child.subprocess, "Popen", Started)
    monkeypatch.setattr(launch, "Pipe", pipe)
    if what == "thread":
        monkeypatch.setattr(rank_child.threading, "Thread", Refused)
    with pytest.raises((OSError, RuntimeError)) as refused:
        OwnProcesses(3).start()
    assert shortage(refused.value) is not None
    assert started and all(process.returncode is not None for process in started)
