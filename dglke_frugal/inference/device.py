"""Where a model's entity table is worked on."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence, Union

import numpy as np

from ..errors import InputError
from ..evaluation.model import EmbeddingModel


def torch_device(gpu: Union[int, Sequence[int]]):
    """The torch device of DGL-KE's --gpu flag, None for the CPU. The first of several GPUs is taken."""
    number = gpu if isinstance(gpu, int) else gpu[0]
    if number < 0:
        return None
    import torch

    if number >= torch.cuda.device_count():
        have = f"there are {torch.cuda.device_count()}" if torch.cuda.is_available() else "there is none"
        raise InputError(f"--gpu {number} asks for a GPU, but {have}; leave the flag out to use the CPU")
    return torch.device("cuda", number)


def on_device(model: EmbeddingModel, gpu: Union[int, Sequence[int]]) -> EmbeddingModel:
    """The model with its entity table on the device; the model itself for the CPU. InputError if it does not fit."""
    device = torch_device(gpu)
    if device is None:
        return model
    import torch

    try:
        entity = torch.empty(model.entity.shape, dtype=torch.float32, device=device)
        for begin in range(0, len(entity), 1 << 16):  # a mapped file need not fit in host memory
            block = np.array(model.entity[begin : begin + (1 << 16)])
            entity[begin : begin + len(block)] = torch.from_numpy(block).to(device)
    except torch.cuda.OutOfMemoryError:
        raise InputError(
            f"the entity table ({model.entity.nbytes / 2**30:.1f} GiB) does not fit on GPU {device.index}; "
            "leave --gpu out to rank on the CPU"
        ) from None
    return replace(model, entity=entity)
