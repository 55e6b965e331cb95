"""What `--matmul auto` stands for on this machine."""

from __future__ import annotations

from dataclasses import replace

from .. import _native
from ..config import AUTO, TrainConfig
from ..models import built_in_model

TENSOR_CORES = (8, 0)  # compute capability from which on they take TF32
PRODUCTS = ("dot", "l2")  # similarities of which a step computes matrix products


def choose_matmul(config: TrainConfig) -> TrainConfig:
    """The configuration with the precision that auto stands for; unchanged where one was asked for.

    tf32x3, which is as near to exact sums as fp32 and faster, on GPUs that have tensor cores for it, where the kernels
    of the model's step multiply matrices; elsewhere fp32, by which the tables are the CPU's.
    """
    if config.device.matmul != AUTO:
        return config
    chosen = "tf32x3" if _multiplies(config) and _has_tensor_cores(config) else "fp32"
    return replace(config, device=replace(config.device, matmul=chosen))


def _multiplies(config: TrainConfig) -> bool:
    model = built_in_model(config.model.model_name)
    return model is not None and not model.matrices and model.similarity in PRODUCTS and not config.batch.against_all


def _has_tensor_cores(config: TrainConfig) -> bool:
    gpus = config.device.gpu
    devices, _ = _native.cuda_devices(with_free_memory=False) if gpus[0] >= 0 else ([], "")
    return all(0 <= gpu < len(devices) and devices[gpu]["capability"] >= TENSOR_CORES for gpu in gpus)
