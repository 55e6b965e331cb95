"""For which GPUs the CUDA kernels are compiled: for the GPUs that are seen, or for all if they are asked for."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT


def run(*command, cwd, path=None, **environment):
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True,
                          env={**os.environ, "PATH": path or os.environ["PATH"], **environment})
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def gpus(tmp_path):
    """What the build takes the machine's GPUs for, where nvidia-smi says this; None: without nvidia-smi's answer."""
    def ask(messages):
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\nexit 9\n" if messages is None else f"#!/bin/sh\nprintf '{messages}'\n")
        tool.chmod(0o755)
        script = tmp_path / "ask.cmake"
        script.write_text(f'include({ROOT}/cmake/seen_gpus.cmake)\n'
                          'frugal_seen_gpus(seen)\nmessage("seen: [${seen}]")\n')
        code, text = run("cmake", "-P", script, cwd=tmp_path, path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        assert code == 0
        return text.strip()

    return ask


@pytest.mark.parametrize("messages, seen", [
    ("9.0\\n", "90-real"),
    ("9.0\\n9.0\\n", "90-real"),
    ("8.0\\n12.0\\n", "80-real;120-real"),
    ("7.5\\n", "75-real"),
    ("6.1\\n", ""),  # the kernels are not written for it
    ("6.1\\n8.9\\n", "89-real")])
def test_kernels_are_for_the_gpus_that_the_driver_names(messages, seen, gpus):
    assert gpus(messages) == f"seen: [{seen}]"


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has a GPU")
def test_without_a_gpu_no_kernels_are_compiled(gpus, tmp_path):
    assert gpus(None) == "seen: []"
    code, messages = run("cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", "-DFRUGAL_PYTHON=OFF",
                         cwd=tmp_path)
    assert code == 0 and "dglke_frugal: CUDA OFF" in messages


@pytest.mark.parametrize("value", ["ON", ""])
def test_another_word_than_auto_on_and_off_is_refused(value, tmp_path):
    code, messages = run(sys.executable, "setup.py", "build_ext", "--build-lib", str(tmp_path / "lib"), "--build-temp",
                     str(tmp_path / "temp"), cwd=ROOT, DGLKE_FRUGAL_CUDA=value)
    assert code != 0 and messages.splitlines()[-1] == f"DGLKE_FRUGAL_CUDA is {value!r}; it must be auto, on or off"
