"""The state of a custom model: parameters and buffers of a TorchModel that is a torch.nn.Module as well."""
from __future__ import annotations

from pathlib import Path
from typing import Dict

import numpy as np
import torch
from torch.nn.parameter import UninitializedTensorMixin

from ..errors import InputError
from ..files import replace_file
from ..npy_files import npy_errors
from .model import Model


def has_state(model: Model) -> bool:
    """Whether the model has anything to keep."""
    return isinstance(model, torch.nn.Module) and bool(model.state_dict())


def check_state(model: torch.nn.Module) -> None:
    """Raise InputError for a parameter or buffer that cannot be kept with a run, or be read in place (see views)."""
    for name, value in model.state_dict().items():
        what = f"{name} of the model {model.name} cannot be kept with a run"
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{what}: it is {type(value).__name__}; keep numbers in parameters and buffers, and leave "
                             "get_extra_state() out")
        if isinstance(value, UninitializedTensorMixin):
            raise InputError(f"{what}: it has no shape yet; give its size, as by torch.nn.Linear "
                             "in place of LazyLinear")
        dense = value.layout == torch.strided
        try:
            if dense:
                value.detach().numpy()
        except (RuntimeError, TypeError):  # of a type or a device that NumPy does not have
            dense = False
        if not dense:
            raise InputError(f"{what}: NumPy has no array of {value.dtype}, {value.layout}, on {value.device}; make it "
                             "float32 on the CPU, as by .to_dense().float().cpu()")
        if not value.is_contiguous():
            raise InputError(f"{what}: its numbers do not lie one after the other; add .contiguous()")


def state_file(folder: Path, stem: str) -> Path:
    """Where a run keeps the state; stem: DATASET_MODEL, as of its tables."""
    return Path(folder) / f"{stem}_model.npz"


def save_state(model: torch.nn.Module, path: Path) -> None:
    """Write parameters and buffers by their names in state_dict(). Raises InputError."""
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    with replace_file(path) as file:
        np.savez(file, **arrays)


def load_state(model: torch.nn.Module, path: Path) -> None:
    """Read what save_state wrote. Raises InputError: missing, damaged, or of a class that has changed since."""
    try:
        with npy_errors(), np.load(path, allow_pickle=False) as stored:
            state: Dict[str, torch.Tensor] = {name: torch.from_numpy(stored[name]) for name in stored.files}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}, the parameters of {model.name}: {error}; copy it again from the run "
                         "that wrote it") from error
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        differences = " ".join(str(error).split())
        raise InputError(f"{path} does not fit the class {model.name} as it is now: {differences}; use the class that "
                         "was trained") from error


def views(model: torch.nn.Module) -> Dict[str, np.ndarray]:
    """Flat arrays of the parameters and buffers themselves, on the host: who writes into one changes the model."""
    return {f"own-{number}": tensor.detach().view(-1).numpy()
            for number, tensor in enumerate(model.state_dict().values())}
