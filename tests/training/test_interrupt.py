"""Signals as requests: the first is noted, the second ends at once."""
import os
import signal
import subprocess
import sys
import threading

import pytest

from dglke_frugal.training.run.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_raises(number, capfd):
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        assert not interrupt and interrupt.exit_code == 0
        os.kill(os.getpid(), number)
        assert interrupt and interrupt.signal == number and interrupt.exit_code == 128 + number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 0)  # a place for the handler to run
    assert signal.getsignal(number) is before
    assert f"{signal.Signals(number).name}: stopping after this step" in capfd.readouterr().err


@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("second", [signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_that_only_announces_the_end_leaves_time_for_it(first, second, capfd):
    with Interrupt() as interrupt:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), second)
        signal.sigtimedwait([], 0)
        assert interrupt.signal == first and interrupt.exit_code == 128 + first
    assert f"{signal.Signals(first).name}: stopping after this step\n" in capfd.readouterr().err


def test_processes_that_agree_end_by_the_signal_that_one_of_them_has_had(capfd):
    agreed = None
    with Interrupt(None, lambda own: agreed) as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 0)
        assert interrupt.signal == signal.SIGTERM and not interrupt  # the others have not heard of it
        agreed = signal.SIGUSR1
        assert interrupt and interrupt.exit_code == 128 + signal.SIGUSR1
    assert capfd.readouterr().err == ""


def test_handlers_come_back_after_an_exception():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), Interrupt():
        raise RuntimeError
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_caught():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with Interrupt() as interrupt:
            seen.append((bool(interrupt), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


def test_a_loop_finishes_its_step():
    code = """
from dglke_frugal.training.run.interrupt import Interrupt
import time
with Interrupt() as interrupt:
    while not interrupt:
        print("begin", flush=True)
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        print("end", flush=True)
raise SystemExit(interrupt.exit_code)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begin\n"
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read()
    assert output.endswith("end\n") and process.returncode == 143
