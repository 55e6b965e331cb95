"""The device part of the memory plan against the memory that a run makes on its device."""
import gc

import pytest
import torch
from devices import QueuedDevice

from dglke_frugal import _native
from dglke_frugal.cli import flags as cli_flags
from dglke_frugal.options import TrainConfig
from dglke_frugal.store.rows.device_rows import BYTES_PER_COPY, STEPS_ON_DEVICE
from dglke_frugal.store.rows.row_transfer import SHAPES
from dglke_frugal.training.plan import memory_plan
from dglke_frugal.training.plan.memory_plan import GraphSize, device_bytes_needed
from dglke_frugal.training.plan.step_bytes import entity_row_bytes
from dglke_frugal.store.row_bytes import row_bytes
from dglke_frugal.training.step.device_kernels import KernelGradients
from dglke_frugal.training.train import train

SETTINGS = [["--flush", "none"], ["--cache_ratio", 0.05], ["--cache_ratio", 1, "--flush", "p2f"]]


class CountingDevice(QueuedDevice):
    """Counts the bytes of its memory."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def zeros(self, *shape, **kind):
        memory = super().zeros(*shape, **kind)
        self.bytes += memory.numel() * memory.element_size()
        return memory


def configured(runs, *flags):
    arguments, _ = runs.arguments("--max_step", 8, "--hidden_dim", 64, "--batch_size", 64, "--neg_sample_size", 32,
                                  "--gpu", 0, *flags)
    return TrainConfig.from_flags(cli_flags.given(arguments))


def planned(config):
    return device_bytes_needed(config, GraphSize(entities=1649, relations=368, triples=13_851))  # what `runs` train on


@pytest.mark.parametrize("element, flags", [
    *((element, flags) for element in ("fp32", "fp16") for flags in SETTINGS),
    ("fp32", ["--matmul", "tf32x3"]), ("fp32", ["--neg_chunk_size", 4]), ("fp32", ["--optimizer", "adam"])], ids=str)
@pytest.mark.parametrize("model", ["TransE_l2", "ComplEx"])
def test_a_step_s_buffers_are_what_is_planned(runs, monkeypatch, model, flags, element):
    """Mean squares, the workspace of gradient kernels and rows that are being copied to the host are a GPU's alone:
    they are added."""
    make, gpu_alone = KernelGradients._make_buffers, []

    def counted(gradients, form, at):
        rows = len(at.records[0]) + form.chunks * form.negatives + form.positives
        gpu_alone.append(4 * (rows + _native.workspace_floats(gradients._step, at.layout)))
        return make(gradients, form, at)

    monkeypatch.setattr(KernelGradients, "_make_buffers", counted)
    config, device = configured(runs, "--model_name", model, "--row_dtype", element, *flags), CountingDevice()
    train(config, None, device=device)
    rows = config.store.cache_slots(1649, entity_row_bytes(config)) if config.uses_engine else 1649
    copied_to_host = min(rows * entity_row_bytes(config), BYTES_PER_COPY)
    assert device.bytes + gpu_alone[0] + copied_to_host == pytest.approx(planned(config), rel=0.05)


def test_room_for_rows_that_owners_move_is_planned(runs, monkeypatch):
    """Of a rank: records of two shapes of steps instead of one."""
    ranks = ["--model_name", "TransE_l2", "--gpu", 0, 1, "--parallel", "columns", "--cache_ratio", 0.05]
    own = planned(configured(runs, *ranks))
    monkeypatch.setattr(memory_plan, "uses_owner_transfer", lambda config, entities: True)
    whole = planned(configured(runs, *ranks))
    rows = min(1649, 2 * 128 + 128)  # of both ranks' joined batch: heads, tails, negatives
    assert whole - own == (SHAPES - 1) * STEPS_ON_DEVICE * rows * row_bytes(32)  # half the columns


@pytest.mark.cuda
@pytest.mark.parametrize("model, element", [("TransE_l2", "fp32"), ("TransE_l2", "fp16"), ("TransR", "fp32"),
                                            ("RESCAL", "fp32")])
@pytest.mark.parametrize("flags", SETTINGS, ids=["resident", "5 %", "all cached"])
def test_what_torch_has_allocated_on_a_gpu_is_what_is_planned(runs, flags, model, element):
    from dglke_frugal.store.device.cuda_device import CudaDevice

    gc.collect()  # tables of earlier tests, whose memory would count as used before
    torch._C._cuda_clearCublasWorkspaces()  # torch keeps them for a thread's and stream's next product
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    config = configured(runs, "--model_name", model, "--hidden_dim", 400, "--batch_size", 1024,
                        "--neg_sample_size", 256, "--row_dtype", element, *flags)
    train(config, None, device=CudaDevice(0))
    assert torch.cuda.max_memory_allocated() - before == pytest.approx(planned(config), rel=0.05)
