"""Whole runs on a device: no setting of the store changes a bit, and the CPU's own step gives the same tables."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from devices import CUDA, STREAMS, FailingDevice, PlainDevice
from training.conftest import logged, tables

from dglke_frugal.options import TrainConfig
from dglke_frugal.errors import InputError
from dglke_frugal.store.device.device import no_op
from dglke_frugal.training.step.step_config import KERNEL_MODELS
from dglke_frugal.training.tables.tables import entity_flushing

STEPS = ["--max_step", 48, "--log_interval", 20]


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def on_device(runs):
    """Trains on a device with the given flags; returns the run's folder."""

    return lambda device, *flags, resume=None: runs.on_device(device, *STEPS, *flags, resume=resume)


def assert_same(folder, expected):
    """Tables to the bit those of the CPU's own step; log lines, whose sums have another order, within 1e-5."""
    assert tables(folder) == tables(expected)
    assert_same_log(folder, expected)


def assert_near(folder, expected):
    """Tables within 1e-4 of those of the CPU's own step, and log lines within 1e-5."""
    for path in sorted(expected.glob("*.npy")):
        difference = np.abs(np.load(folder / path.name) - np.load(path))
        assert np.mean(difference <= 1e-4) >= 0.999, f"{path.name}: {difference.max()}"
    assert_same_log(folder, expected)


def assert_same_log(folder, expected):
    names = {"train/loss", "train/pos_loss", "train/neg_loss", "train/regularization"}
    if not logged(expected, "train/pos_loss"):  # a pairwise loss has no averages apart
        names -= {"train/pos_loss", "train/neg_loss"}
        assert not logged(folder, "train/pos_loss") and not logged(folder, "train/neg_loss")
    for name in names:
        ours, theirs = logged(folder, name), logged(expected, name)
        assert [step for step, _ in ours] == [step for step, _ in theirs] == [20, 40, 48]
        np.testing.assert_allclose([value for _, value in ours], [value for _, value in theirs], rtol=1e-5)


@pytest.mark.parametrize("flags, write_backs", [(["--flush", "none"], 0),
                                                (["--flush", "direct", "--cache_ratio", 0.05], 48)],
                         ids=str)
def test_a_step_is_written_back_only_if_rows_are(on_device, flags, write_backs):
    """Calls for write-backs take the host's time."""
    counted = []

    class Counting(PlainDevice):
        def write_back(self, work, after=None):
            counted.append(work is not no_op)
            return super().write_back(work, after)

    on_device(Counting(), *flags)
    assert sum(counted) == write_backs


@pytest.mark.parametrize("kind", ["cpu", "queued", CUDA])
def test_no_setting_changes_a_bit(on_device, runs, kind):
    folder = on_device(kind, "--flush", "none")
    assert_same(folder, runs(*STEPS))
    expected = tables(folder)
    for ratio, lookahead, flush in itertools.product((0, 0.05, 1), (1, 10), ("direct", "p2f", "sync")):
        flags = ["--cache_ratio", ratio, "--lookahead", lookahead, "--flush", flush]
        assert tables(on_device(kind, *flags)) == expected, flags
    for flush in ("direct", "p2f"):
        flags = ["--cache_policy", "lfu", "--flush", flush, "--cache_ratio", 0.02]
        assert tables(on_device(kind, *flags)) == expected, flags


@pytest.mark.cuda
def test_graphs_leave_the_numbers_alone(on_device):
    rotate = ["--model_name", "RotatE", "-de", "-adv"]
    for flags in (["--flush", "direct"], ["--flush", "p2f"], rotate):
        assert tables(on_device("cuda-no-graphs", *flags)) == tables(on_device("cuda", *flags)), flags


@pytest.mark.cuda
@pytest.mark.parametrize("matmul", ["tf32x3", "tf32"])
def test_no_setting_changes_a_bit_of_products_on_tensor_cores(on_device, matmul):
    """Other bits than those of float32, but the same wherever rows lie."""
    expected = tables(on_device("cuda", "--matmul", matmul, "--flush", "none"))
    assert expected != tables(on_device("cuda", "--flush", "none"))
    for ratio, lookahead, flush in itertools.product((0, 0.05, 1), (1, 10), ("direct", "p2f")):
        flags = ["--flush", flush, "--cache_ratio", ratio, "--lookahead", lookahead]
        assert tables(on_device("cuda", "--matmul", matmul, *flags)) == expected, flags
    assert tables(on_device("cuda-no-graphs", "--matmul", matmul, "--flush", "direct")) == expected


@pytest.mark.cuda
def test_products_on_tensor_cores_learn_what_float32_learns(on_device):
    assert_near(on_device("cuda", "--matmul", "tf32x3"), on_device("cuda"))


MODELS = {"TransE_l1": ["-adv"], "TransE_l2": ["--loss_genre", "Hinge", "-pw"], "DistMult": ["--neg_deg_sample"],
          "ComplEx": ["-rn", "2", "-rc", "1e-5"], "RotatE": ["-de", "-adv", "-a", "0.5"],
          "SimplE": ["-de", "-dr", "--loss_genre", "Logistic"], "RESCAL": ["--hidden_dim", "8"],
          "TransR": ["--hidden_dim", "8", "--neg_deg_sample"]}


@pytest.mark.parametrize("kind", ["cpu", CUDA])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_gives_the_tables_of_the_cpus_own_step(on_device, runs, model, kind):
    """To the bit where a model has kernels, nearly where torch computes its gradients."""
    flags = ["--model_name", model, *MODELS[model], "--lr", "0.01"]
    compare = assert_same if model in KERNEL_MODELS else assert_near
    compare(on_device(kind, *flags, "--flush", "p2f", "--cache_ratio", 0.1), runs(*STEPS, *flags))


@pytest.mark.parametrize("kind", ["cpu", *STREAMS, CUDA])
def test_edge_importance_and_the_rest_of_an_epoch(on_device, runs, kind):
    """11397 triples are seven batches of 1450 and one of 1247."""
    flags = ["--has_edge_importance", "--data_files", "train_weighted.txt", "valid_weighted.txt", "test_weighted.txt",
             "--batch_size", 1450, "--neg_sample_size", 29]
    for store in (["--flush", "direct"], ["--flush", "none"]):
        assert_same(on_device(kind, *flags, *store), runs(*STEPS, *flags))


@pytest.mark.parametrize("store", [["--flush", "direct"], ["--flush", "none"]])
def test_a_run_says_how_long_its_host_has_waited_for_the_device(on_device, runs, store):
    shares = logged(on_device("queued", *store), "train/device_wait_share")
    assert [step for step, _ in shares] == [20, 40, 48] and all(0 < share < 1 for _, share in shares)
    assert not logged(runs(*STEPS), "train/device_wait_share")


@pytest.mark.parametrize("kind", ["queued", CUDA])
def test_a_run_that_is_resumed_has_the_same_bits(on_device, kind):
    flags = ["--flush", "p2f", "--cache_ratio", 0.1, "--cache_policy", "lfu"]
    expected = tables(on_device(kind, *flags))
    folder = on_device(kind, *flags, "--max_step", 21, "--checkpoint_interval", 7)
    assert tables(on_device(kind, *flags, resume=folder)) == expected


@pytest.mark.parametrize("kind", ["cpu", CUDA])
def test_a_custom_model(on_device, runs, tmp_path, monkeypatch, kind):
    (tmp_path / "custom_device_models.py").write_text(
        "from dglke_frugal.models import TorchModel\n"
        "class Distance(TorchModel):\n"
        "    def score(self, head, relation, tail):\n"
        "        return self.gamma - (head + relation - tail).norm(dim=-1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = on_device(kind, "--model_name", "custom_device_models:Distance", "--flush", "p2f")
    expected = runs(*STEPS)
    for own, built_in in zip(sorted(folder.glob("*.npy")), sorted(expected.glob("*.npy"))):
        assert np.mean(np.abs(np.load(own) - np.load(built_in)) <= 1e-4) >= 0.999


def test_validation_between_steps_disturbs_nothing(on_device):
    plain = tables(on_device("queued", "--flush", "p2f"))
    validated = on_device("queued", "--flush", "p2f", "--valid", "--eval_interval", 13, "--eval_percent", 0.01)
    assert tables(validated) == plain
    assert [step for step, _ in logged(validated, "valid/MRR")] == [13, 26, 39]


def test_divergence_is_a_sentence(on_device):
    with pytest.raises(InputError, match="the training has diverged"):
        on_device("cpu", "--model_name", "DistMult", "--lr", "1e30", "--flush", "none")


@pytest.mark.parametrize("cache_ratio", [0, 1])
def test_a_device_that_fails_ends_the_run_with_the_checkpoint_to_go_on_from(on_device, capsys, cache_ratio):
    """With an empty cache the host waits for the device at each gate, with a full one it is ahead."""
    flags = ["--flush", "p2f", "--cache_ratio", cache_ratio]
    expected = tables(on_device("cpu", *flags))
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        on_device(FailingDevice(30), *flags, "--checkpoint_interval", 10)
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "device" in line and "go on from the checkpoint of step 20" in line
    folder = Path(line.split()[-1])
    assert not list(folder.glob("*.npy"))
    assert tables(on_device("cpu", *flags, resume=folder)) == expected
    with pytest.raises(SystemExit):
        on_device(FailingDevice(3), *flags)
    assert "there is no checkpoint to go on from" in capsys.readouterr().err


BREAK = """
from dglke_frugal.cli.train import main
from dglke_frugal.training.run.run import TrainingRun
import sys, torch
checkpoint = TrainingRun.checkpoint
def break_after(run):
    checkpoint(run)
    if run.steps_done == 20:
        torch.zeros(1, device="cuda")[torch.tensor([5], device="cuda")]
TrainingRun.checkpoint = break_after
main(sys.argv[1:])
"""


@pytest.mark.cuda
def test_a_gpu_that_is_lost_ends_the_run_with_the_checkpoint_to_go_on_from(runs):
    """An assertion in a kernel: every call of CUDA fails from then on, as after a GPU that is gone."""
    flags = [*STEPS, "--gpu", 0, "--cache_ratio", 0.1]
    expected = tables(runs(*flags))
    arguments, folder = runs.arguments(*flags, "--checkpoint_interval", 10)
    ended = subprocess.run([sys.executable, "-c", BREAK, *arguments], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr[-3000:]
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("training stopped")]
    assert "CUDA" in line and "go on from the checkpoint of step 20" in line
    assert not list(folder.glob("*.npy"))
    assert tables(runs.resume(folder)) == expected


def test_how_rows_get_to_host_memory_is_what_the_flags_say():
    def mode(**flags):
        found = entity_flushing(TrainConfig.from_flags(flags), 1000, 20)
        return found and found.mode

    assert mode(gpu=[0]) == mode(gpu=[0], flush="direct") == mode(gpu=[0], row_dtype="fp16") == "direct"
    assert mode(gpu=[0, 1]) == "direct"
    assert mode(gpu=[0], flush="p2f") == mode(gpu=[0, 1], row_dtype="fp16") == mode(flush="p2f") == "p2f"
    assert mode(gpu=[0], flush="sync") == "sync"
    assert mode() is mode(gpu=[0], flush="none") is None
