"""Training runs on a small real graph, in this process or in one of their own."""

import json
import subprocess
import sys

import pytest
from devices import make_device

from dglke_frugal.cli import flags as cli_flags
from dglke_frugal.cli.train import main
from dglke_frugal.options import TrainConfig
from dglke_frugal.training.train import train

FLAGS = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt",
         "--model_name", "TransE_l2", "--hidden_dim", "20", "--batch_size", "256", "--neg_sample_size", "64", "--gamma",
         "12", "--lr", "0.1", "--seed", "3", "--matmul", "fp32"]  # for a GPU, whose tables are then the CPU's


class Runs:
    """Starts runs below `folder` on the graph in `data`; flags given here go before the common ones."""

    interpreter = sys.executable  # of processes

    def __init__(self, data, folder):
        self.folder, self._data, self._count = folder, data, 0

    def arguments(self, *flags):
        """A command line, and the folder that its run will have."""
        self._count += 1
        parent = self.folder / f"runs-{self._count}"
        model = flags[flags.index("--model_name") + 1] if "--model_name" in flags else "TransE_l2"
        arguments = [*FLAGS, "--data_path", str(self._data), "--save_path", str(parent), *map(str, flags)]
        return arguments, parent / f"{model}_small_0"

    def __call__(self, *flags):
        """Run to the end in this process; returns the run's folder."""
        arguments, folder = self.arguments(*flags)
        main(arguments)
        return folder

    def on_device(self, device, *flags, resume=None):
        """The same on a device, or on one of tests/devices.py by its name."""
        config = TrainConfig.from_flags(cli_flags.given(self.arguments(*flags)[0]))
        return train(config, resume, device=make_device(device) if isinstance(device, str) else device)

    @staticmethod
    def resume(folder, *flags):
        main(["--resume", str(folder), *map(str, flags)])
        return folder

    def process(self, arguments, **options):
        """The command in a process of its own, with its output as text in one pipe."""
        return subprocess.Popen([self.interpreter, "-m", "dglke_frugal", "train", *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def tables(folder):
    """The saved arrays of a run, as bytes by file name."""
    found = {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}
    assert len(found) >= 2
    return found


def result(folder):
    """What result.json says."""
    return json.loads((folder / "result.json").read_text())


def logged(folder, name):
    """(step, value) of a metric in metrics.jsonl."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line[name]) for line in lines if name in line]


@pytest.fixture(scope="session")
def small(graphs, tmp_path_factory):
    """The small graph in a folder that may be written to, for the id maps of raw_udd formats."""
    data = tmp_path_factory.mktemp("small")
    for split in ("train", "valid", "test"):
        for name in (f"{split}.txt", f"{split}_weighted.txt"):
            (data / name).symlink_to(graphs / "fb15k-small" / name)
    return data


@pytest.fixture
def runs(small, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # quickest at this size; processes inherit it
    return Runs(small, tmp_path)
