"""DGL-KE's commands in processes of their own, on a small real graph."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _python(code, cwd, threads=1):
    """Run `code` in a fresh interpreter; returns what it printed, fails with its error output if it fails."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=str(ROOT))
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def python():
    return _python


@pytest.fixture(scope="session")
def dglke():
    """One of DGL-KE's commands through compat: dglke(command, arguments, folder) returns what it printed."""

    def command(name, arguments, cwd, seed=7):
        arguments = [str(argument) for argument in arguments]
        return _python(f"from dglke_frugal import compat\ncompat.run({name!r}, {arguments!r}, seed={seed})", cwd)

    return command


@pytest.fixture(scope="session")
def small(graphs, tmp_path_factory):
    """A copy of the small graph, since reading raw triples writes id maps beside them."""
    folder = tmp_path_factory.mktemp("compat") / "small"
    shutil.copytree(graphs / "fb15k-small", folder)
    return folder
