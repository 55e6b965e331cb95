"""The state from which a finished run can be trained on: optimizer states, next to the tables that it has saved.

They are a checkpoint without tables, so they are written whole or not at all, with the flags that they belong to.
A run that keeps checkpoints has no need of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import numpy as np

from ...data.fingerprint import file_checksum
from ...errors import InputError
from ...npy_files import read_npy
from ...saved_tables import SavedTables
from ..tables.tables import Tables
from .checkpoint import Checkpoint, CheckpointFolder
from .run_folder import CHECKPOINTS

STATES = "optimizer"  # folder within that of the run


def save_final_state(folder: Path, step: int, tables: Tables, own: Mapping, identity: Mapping,
                     state: Mapping[str, Any]) -> None:
    """Write the optimizer states of tables that are saved in `folder`, and arrays of the model's own. InputError."""
    CheckpointFolder(folder / STATES).save(step, {**_states(tables), **own}, identity, state)


def last_state(folder: Path) -> Optional[Checkpoint]:
    """The state from which a run can go on: its last checkpoint or its final state, None if there is neither.
    InputError."""
    found = [CheckpointFolder(folder / part).last() for part in (STATES, CHECKPOINTS)]
    return max((each for each in found if each is not None), key=lambda each: each.step, default=None)


def load_state(state: Checkpoint, tables: Tables, own: Mapping, folder: Path, stem: str) -> None:
    """Fill tables, optimizer states and arrays of the model's own with what last_state found. Raises InputError, also
    where the saved tables are not the ones that the states belong to.

    stem: of the files of saved tables.
    """
    if state.path.parent.name == CHECKPOINTS:
        state.load_into({**tables.arrays(), **own})
        return
    saved = SavedTables.of(folder)
    if saved.step != state.step:
        step = "no known step" if saved.step is None else f"step {saved.step}"
        raise InputError(f"{folder} has tables of {step} and optimizer states of step {state.step}; copy its "
                         "files again from the run that wrote them, or start a new run from its rows with --init_from")
    tables.load(folder, stem)
    for file in tables.files(folder, stem).values():
        saved.check(file, file_checksum(file))
    state.load_into({**_states(tables), **own})


def reads_half_precision(state: Checkpoint, tables: Tables, folder: Path, stem: str) -> bool:
    """Whether load_state takes the entities from a file that --save_dtype fp16 has written."""
    if state.path.parent.name == CHECKPOINTS:
        return False
    return read_npy(tables.files(folder, stem)["entity"]).dtype == np.float16


def optimizer_states(folder: Path, names) -> Optional[Dict[str, np.ndarray]]:
    """The states that belong to a run's saved tables, those of the same step, by table, memory-mapped; None if it has
    none.

    (rows,) float32, or (rows, n) of --optimizer adagrad and adam. Raises InputError for a missing or damaged file.
    """
    step, checkpoints = SavedTables.of(folder).step, CheckpointFolder(folder / CHECKPOINTS)
    kept = CheckpointFolder(folder / STATES).last(), checkpoints.best(), checkpoints.last()
    found = next((each for each in kept if each is not None and each.step == step), None)
    if found is None or any(f"{name}_state" not in found.arrays for name in names):
        return None
    remedy = "leave --init_from out or take another run"
    return {name: found.mapped(f"{name}_state", remedy) for name in names}


def _states(tables: Tables) -> Dict[str, np.ndarray]:
    return {name: array for name, array in tables.arrays().items() if name.endswith("_state")}
