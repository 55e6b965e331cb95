"""Where a model is ranked and searched: the CPU's own kernels, or a GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

import numpy as np

from .. import _native
from ..errors import InputError
from .model import EmbeddingModel

if TYPE_CHECKING:
    import torch

_WORKING_BYTES = 1 << 30  # device memory that comparing takes in addition to the table, with some to spare
_UPLOADED_ROWS = 1 << 16  # together: a mapped file need not fit in host memory


def torch_device(gpu: Union[int, Sequence[int]]) -> Optional[torch.device]:
    """The torch device of DGL-KE's --gpu flag, None for the CPU. The first of several GPUs is taken.

    Raises InputError if there is no such device, or neither PyTorch nor this build can use it.
    """
    number = gpu if isinstance(gpu, int) else gpu[0]
    if number < 0:
        return None
    devices, reason = _native.cuda_devices(with_free_memory=False)
    if not devices:
        raise InputError(f"--gpu {number} (device= in Python) asks for a GPU, but {reason}; leave it out to use "
                         "the CPU")
    import torch

    if number >= torch.cuda.device_count():
        have = f"there are {torch.cuda.device_count()}" if torch.cuda.is_available() else "PyTorch sees none"
        raise InputError(f"--gpu {number} (device= in Python) asks for a GPU, but {have}; leave it out to use the CPU")
    return torch.device("cuda", number)


def on_device(model: EmbeddingModel, gpu: Union[int, Sequence[int]]) -> EmbeddingModel:
    """The model as the GPU ranks it, or the model itself for the CPU (-1).

    The entity table goes to the device if it fits there, and stays in host memory otherwise. On a device that is full,
    as with a large cache during training, the CPU ranks, which is reported.
    """
    device = torch_device(gpu)
    if device is None:
        return model
    free = _free_bytes(device)
    if free < _WORKING_BYTES:
        print(f"GPU {device.index} has {free >> 20} MiB free, too few to rank with; the CPU ranks", flush=True)
        return model
    return replace(model, entity=place(model.entity, device), device=device)


def place(rows: Any, device: torch.device) -> Any:
    """Rows (n, dim) float32 as a tensor on the device, or the rows themselves if they do not fit there."""
    count, dim = rows.shape
    return upload(rows, device) if 4 * count * dim + _WORKING_BYTES <= _free_bytes(device) else rows


def _free_bytes(device) -> int:
    import torch

    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else sys.maxsize


def upload(rows: Any, device: torch.device) -> torch.Tensor:
    """A copy of rows (n, dim) float32, which may be strided or memory-mapped, as a tensor on the device."""
    import torch

    there = torch.empty(rows.shape, dtype=torch.float32, device=device)
    for begin in range(0, len(rows), _UPLOADED_ROWS):
        block = np.array(rows[begin : begin + _UPLOADED_ROWS])
        there[begin : begin + len(block)] = torch.from_numpy(block).to(device)
    return there
