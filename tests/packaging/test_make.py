"""`make test` on a machine that lacks what the C++ tests need, `make quickstart` on any."""

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

PACKAGES = ["g++", "libgtest-dev", "libgmock-dev", "clang"]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """Commands of a machine on which a compiler finds what apt-get has installed; all that is run goes to a log."""
    bin, log = tmp_path / "bin", tmp_path / "log"
    log.touch()
    for tool in ("sh", "cat", "echo", "touch", "mkdir", "dirname"):
        (bin / tool).parent.mkdir(exist_ok=True)
        (bin / tool).symlink_to(shutil.which(tool))
    script(bin / "id", "echo 0")
    script(bin / "apt-get", f'echo "apt-get $*" >> {log}; [ "$1" = update ] || touch {tmp_path}/there')
    for compiler in ("c++", "clang++"):
        script(bin / compiler, f"cat > /dev/null; [ -e {tmp_path}/there ]")

    def run():
        done = subprocess.run(["sh", ROOT / "csrc" / "tests" / "packages.sh"], env={"PATH": str(bin)}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        return done.returncode, done.stderr, log.read_text().splitlines()

    run.bin = bin
    return run


def test_what_is_missing_is_installed_by_root(machine):
    code, messages, ran = machine()
    assert (code, messages) == (0, "")
    assert ran == ["apt-get update -q", "apt-get install -y --no-install-recommends libgtest-dev libgmock-dev"]
    assert machine() == (0, "", ran)  # nothing more to do


def test_without_root_the_command_is_named(machine):
    script(machine.bin / "id", "echo 1000")
    for command in ("c++", "clang++"):
        (machine.bin / command).unlink()
    code, messages, ran = machine()
    assert code == 1 and ran == []
    assert messages.endswith(f"sudo apt-get install -y --no-install-recommends {' '.join(PACKAGES)}\n")


def test_what_cannot_be_installed_is_named(machine):
    script(machine.bin / "apt-get", "exit 100")
    code, messages, _ = machine()
    assert code == 1 and "still lack libgtest-dev libgmock-dev" in messages


@pytest.fixture
def checkout(tmp_path):
    """A tree whose commands only note that they ran; `lacking` makes the packages fail."""
    tree, log = tmp_path / "tree", tmp_path / "ran"
    tree.mkdir()
    log.touch()
    shutil.copy(ROOT / "Makefile", tree)
    shutil.copytree(ROOT / ".ci", tree / ".ci")
    for name in ("packaging", "cmake"):
        shutil.copytree(ROOT / name, tree / name)
    for name in ("CMakeLists.txt", "setup.py", "pyproject.toml", "constraints.txt"):
        (tree / name).touch()
    for tool in ("python", "pip", "cmake", "ctest"):
        script(tree / ".venv" / "bin" / tool, f'echo "{tool} $*" >> {log}')
    script(tree / "csrc" / "tests" / "run_sanitizers.sh", f"echo sanitizers >> {log}")

    def make(*command, lacking):
        script(tree / "csrc" / "tests" / "packages.sh", "echo install this >&2; exit 1" if lacking else "exit 0")
        log.write_text("")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=environment)
        return done.returncode, done.stderr, log.read_text(), done.stdout

    make.tree = tree
    return make


@pytest.mark.parametrize("command", [["make", "test"], ["bash", ".ci/run"]])
def test_python_tests_run_where_those_of_cpp_cannot(checkout, command):
    code, messages, ran, _ = checkout(*command, lacking=True)
    assert code != 0 and "python -m pytest" in ran and "ctest" not in ran and "sanitizers" not in ran
    assert any("install this" in line for line in messages.splitlines()[-2:])  # where it is seen
    code, messages, ran, _ = checkout(*command, lacking=False)
    assert code == 0 and "python -m pytest" in ran and "ctest --test-dir" in ran and "sanitizers" in ran


def test_the_quickstart_needs_none_of_it(checkout):
    code, _, ran, messages = checkout("make", "quickstart", lacking=True)
    assert code == 0 and "python -m recipes.quickstart" in ran
    lines = messages.splitlines()
    assert lines[0].startswith("This installs dglke_frugal into .venv and trains a small model: 4 minutes")
    assert [re.sub(r"\d+ s$", "N s", line) for line in lines[2:]] == [
        "Installing PyTorch and build tools ... N s", "Compiling the extension ... N s"]
    code, _, ran, messages = checkout("make", "quickstart", lacking=True)
    assert (code, messages) == (0, "") and ran.splitlines() == ["python -m recipes.quickstart"]  # all is there


def test_a_step_that_fails_shows_the_end_of_its_log_and_names_it(checkout):
    script(checkout.tree / ".venv" / "bin" / "python",
           "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; done; echo WARNING: broken >&2; exit 3")
    code, error, _, messages = checkout("make", "quickstart", lacking=True)
    assert code != 0 and "line" not in messages and "WARNING" not in messages
    assert "line 100\nWARNING: broken\n" in error and "line 50\n" not in error
    assert "Installing PyTorch and build tools failed; all of its output is in build/log/dependencies.log" in error
    log = (checkout.tree / "build" / "log" / "dependencies.log").read_text()
    assert log.startswith("line 1\n") and log.endswith("WARNING: broken\n")
    assert not (checkout.tree / ".venv" / "dependencies").exists()


def test_a_step_shows_on_a_terminal_how_far_a_compilation_is(tmp_path):
    terminal, other = pty.openpty()
    os.mkfifo(tmp_path / "seen")
    command = ["sh", "-c", "echo '[1/12] one'; echo '  [7/12] two'; cat seen; echo WARNING: x"]
    step = subprocess.Popen([sys.executable, ROOT / "packaging" / "step.py", "Compiling", "step.log", *command],
                            cwd=tmp_path, stdout=other)
    os.close(other)
    messages = b""
    while b"[7/12]" not in messages:
        messages += os.read(terminal, 1024)
    (tmp_path / "seen").write_text("[12/12] three\n")  # only now may it go on
    assert step.wait() == 0
    with contextlib.suppress(OSError):  # the terminal's end
        while more := os.read(terminal, 1024):
            messages += more
    os.close(terminal)
    assert b"WARNING" not in messages and messages.count(b"\n") == 1 and b"\rCompiling ... [7/12] " in messages
