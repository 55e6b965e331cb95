"""Forked interpreters (tests/forks.py) do as started ones do, as far as tests of ranks look."""
import os
import signal
import subprocess
import sys

import pytest
from training.parallel.conftest import state_of


def ended(interpreter, code, *arguments, **options):
    return subprocess.run([interpreter, "-c", code, *arguments], capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def interpreters(interpreter, tmp_path):
    """A forked one and a started one, both with an empty sitecustomize."""
    (tmp_path / "sitecustomize.py").touch()
    return [(each, {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}}) for each in (interpreter, sys.executable)]


@pytest.mark.parametrize("code, status", [("pass", 0), ("import sys; sys.exit(3)", 3), ("raise ValueError('no')", 1),
                                          ("import sys; sys.exit('a sentence')", 1),
                                          ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)])
def test_the_end_is_the_same(interpreters, code, status):
    forked, started = (ended(interpreter, code, **options) for interpreter, options in interpreters)
    assert forked.returncode == started.returncode == status
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_arguments_folder_environment_and_open_files_are_the_same(interpreters, tmp_path):
    code = "import os, sys; os.write(int(sys.argv[1]), f'{os.getcwd()} {sys.argv[1:]} {os.environ[\"A\"]}'.encode())"
    for interpreter, options in interpreters:
        here, there = os.pipe()
        environment = {**options["env"], "A": "b"}
        done = ended(interpreter, code, str(there), env=environment, cwd=tmp_path, pass_fds=[there])
        os.close(there)
        with os.fdopen(here) as pipe:
            assert (done.returncode, pipe.read()) == (0, f"{tmp_path} ['{there}'] b")


def test_signals_reach_it_and_it_ends_with_its_script(interpreters):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    interpreter, options = interpreters[0]
    for number in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([interpreter, "-c", code], stdout=subprocess.PIPE, text=True, **options) as process:
            pid = int(process.stdout.readline())
            process.send_signal(number)
            assert process.stdout.read() == ""  # which ends when nobody can write any more
            assert process.wait(timeout=300) == -number
        assert pid != process.pid


def test_it_stops_and_goes_on(interpreters):
    code = "import os; print(os.getpid(), flush=True); print(input())"
    interpreter, options = interpreters[0]
    with subprocess.Popen([interpreter, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          **options) as process:
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGTSTP)
        while (state := state_of(pid)) != "T":
            assert state != "Z"
        process.stdin.write("on\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=300) == ("on\n", None) and process.returncode == 0
