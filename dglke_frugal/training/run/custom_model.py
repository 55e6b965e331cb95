"""A custom model in a training run: made once, shared by the step and the ranking, saved with the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

import torch

from ...data.fingerprint import file_checksum
from ...errors import InputError
from ...models import TorchModel, find_model
from ...models.custom_state import check_state, has_state, save_state, state_file
from ...options import TrainConfig


def check_custom_model(config: TrainConfig) -> None:
    """Raise InputError for a model that cannot be loaded, or not be trained on the devices of the configuration."""
    model = find_model(config.model.model_name)
    if not has_state(model):
        return
    check_state(model)
    if config.device.ranks > 1 or config.device.gpu[0] >= 0:
        raise InputError(f"--model_name {config.model.model_name}: a model with parameters of its own trains in one "
                         "process on the CPU; leave --num_proc and --gpu out")


def make_custom_model(config: TrainConfig) -> TorchModel:
    """The model; the start values of its state depend on the run's seed alone. Raises InputError."""
    name = config.model.model_name
    model = find_model(name)
    if has_state(model):
        model.load_state_dict(find_model(name, config.run.seed).state_dict())
    return model


def log_if_other_threads(before: Optional[int]) -> None:
    """Print one line if earlier steps of a run had another number of threads (None: no steps of torch on the CPU), for
    torch's sums then differ in their last bits."""
    if before not in (None, torch.get_num_threads()):
        print(f"torch computed the earlier steps by {before} threads and computes these by {torch.get_num_threads()}, "
              f"whose sums differ in their last bits; OMP_NUM_THREADS={before} goes on to the bit", flush=True)


def save_custom_model(model: TorchModel, folder: Path, stem: str) -> Dict[str, int]:
    """Write what the model has learned besides its rows, if anything; returns the CRC-32 of the file by its name.
    Raises InputError."""
    if not has_state(model):
        return {}
    file = state_file(folder, stem)
    save_state(model, file)
    return {file.name: file_checksum(file)}
