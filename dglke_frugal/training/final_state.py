"""What a finished run needs to be trained on: optimizer states, a number per row, beside the tables that it has saved.

They are a checkpoint without tables, so they are written whole or not at all, with the flags that they belong to.
A run that keeps checkpoints has no need of them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import numpy as np

from ..errors import InputError
from .folder.checkpoint import Checkpoint, CheckpointFolder
from .folder.run_folder import CHECKPOINTS
from .tables import Tables

STATES = "optimizer"  # folder within that of the run


def remove_final_state(folder: Path) -> None:
    """Forget the states, because the tables beside them are about to change."""
    shutil.rmtree(folder / STATES, ignore_errors=True)


def save_final_state(
    folder: Path, step: int, tables: Tables, own: Mapping, identity: Mapping, state: Mapping[str, Any]
) -> None:
    """Write the optimizer states of tables that have just been saved, and arrays of the model's own. InputError."""
    with CheckpointFolder(folder / STATES) as states:
        states.save(step, {**_states(tables), **own}, identity, state)


def last_state(folder: Path) -> Optional[Checkpoint]:
    """What a run can go on from: its last checkpoint or its final state, None if there is neither. InputError."""
    found = [CheckpointFolder(folder / part).last() for part in (STATES, CHECKPOINTS)]
    return max((each for each in found if each is not None), key=lambda each: each.step, default=None)


def load_state(state: Checkpoint, tables: Tables, own: Mapping, folder: Path, stem: str) -> None:
    """Fill tables, optimizer states and arrays of the model's own with what last_state found. Raises InputError.

    stem: of the files of saved tables.
    """
    if state.path.parent.name == CHECKPOINTS:
        state.load_into({**tables.arrays(), **own})
        return
    tables.load(folder, stem)
    state.load_into({**_states(tables), **own})


def reads_halves(state: Checkpoint, tables: Tables, folder: Path, stem: str) -> bool:
    """Whether load_state takes the entities from a file that --save_dtype fp16 has written."""
    if state.path.parent.name == CHECKPOINTS:
        return False
    return np.load(tables.files(folder, stem)["entity"], mmap_mode="r", allow_pickle=False).dtype == np.float16


def optimizer_states(folder: Path, names) -> Optional[Dict[str, np.ndarray]]:
    """The states (rows,) float32 that belong to a run's saved tables, by table, memory-mapped; None if it has none.

    Raises InputError for a file that is missing or damaged.
    """
    checkpoints = CheckpointFolder(folder / CHECKPOINTS)
    found = CheckpointFolder(folder / STATES).last() or checkpoints.best() or checkpoints.last()
    if found is None or any(f"{name}_state" not in found.arrays for name in names):
        return None
    return {name: _mapped_state(found, f"{name}_state") for name in names}


def _mapped_state(state: Checkpoint, name: str) -> np.ndarray:
    path, stored = state.path / f"{name}.npy", state.arrays[name]
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        if (array.shape, array.dtype) != (stored.shape, np.dtype(stored.dtype)):
            raise ValueError(f"it holds {array.dtype} {array.shape}")
        return array
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; leave --init_from out or take another run") from error


def _states(tables: Tables) -> Dict[str, np.ndarray]:
    return {name: array for name, array in tables.arrays().items() if name.endswith("_state")}
