"""What benchmarks/timed_run.py leaves behind."""
import contextlib
import os
import signal
import subprocess
import sys

import pytest

from conftest import ROOT

# Says the number of the process that trains, which would go on for ever.
TRAINS = """
import sys, subprocess
from benchmarks import timed_run

class FakeTraining(subprocess.Popen):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        print(self.pid, flush=True)

timed_run.subprocess.Popen = FakeTraining
timed_run.run(sys.argv[1:], 1, 1e9, 1)
"""


def test_a_benchmark_that_is_stopped_stops_its_training(tmp_path):
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n", encoding="utf-8")
    flags = ["--dataset", "mine", "--data_path", str(tmp_path), "--format", "raw_udd_hrt", "--data_files", "train.txt",
             "--model_name", "DistMult", "--hidden_dim", "8", "--batch_size", "3", "--neg_sample_size", "3"]
    command = [sys.executable, "-c", TRAINS, *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as stopped:
        training = int(stopped.stdout.readline())
        os.kill(training, 0)  # it is there
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(timeout=60) == 128 + signal.SIGTERM
    try:
        with pytest.raises(ProcessLookupError):
            os.kill(training, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(training, signal.SIGKILL)
