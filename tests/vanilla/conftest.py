"""DGL-KE's commands in processes of their own, on a small real graph."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 13):  # dgl has no wheels
    collect_ignore = ["test_commands.py", "test_sampler.py"]

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))

# Importing torch, dgl and dglke takes seconds, a command on a small graph does not: one process imports, its forks run.
SERVER = """
import json, os, sys, traceback
from dglke_frugal import vanilla
vanilla.install()
for line in sys.stdin:
    command, argv, seed, folder = json.loads(line)
    child = os.fork()
    if child == 0:
        output = os.open(os.path.join(folder, "output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        os.chdir(folder)
        try:
            vanilla.run(command, argv, seed=seed)
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def python():
    """Runs code in a fresh interpreter; returns what it printed, fails with its error output if it fails."""

    def run(code, cwd=ROOT):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def dglke():
    """One of DGL-KE's commands through vanilla: dglke(command, arguments, folder to run in) returns what it printed."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], env=ENVIRONMENT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def command(name, arguments, folder, seed=7):
        server.stdin.write(json.dumps([name, [str(argument) for argument in arguments], seed, str(folder)]) + "\n")
        server.stdin.flush()
        code = server.stdout.readline()
        output = (Path(folder) / "output").read_text()
        assert code == "0\n", output[-4000:]
        return output

    yield command
    server.stdin.close()
    server.wait()


@pytest.fixture(scope="session")
def small(graphs, tmp_path_factory):
    """A copy of the small graph, since reading raw triples writes id maps next to them."""
    folder = tmp_path_factory.mktemp("vanilla") / "small"
    shutil.copytree(graphs / "fb15k-small", folder)
    return folder
