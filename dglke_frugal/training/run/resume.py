"""Which run --resume auto goes on with."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import Optional

from ...options import TrainConfig
from ..checkpoint.final_state import last_state
from ..checkpoint.run_folder import FLAGS_FILE


def with_seed_of(config: TrainConfig, folder: Path) -> TrainConfig:
    """The configuration with the seed of the run in `folder`, unless it says its own or there is no checkpoint."""
    state = last_state(folder) if config.run.seed is None else None
    return config if state is None else replace(config, run=replace(config.run, seed=state.config.get("seed")))


def newest_run(config: TrainConfig) -> Optional[Path]:
    """The folder of --save_path with the highest number of this model and data set, None if there is none."""
    stem = f"{config.model.model_name}_{config.graph.dataset}_"
    found = {}
    for folder in Path(config.run.save_path).glob(f"{glob.escape(stem)}*"):
        number = folder.name[len(stem):]
        if number.isdigit() and (folder / FLAGS_FILE).is_file():
            found[int(number)] = folder
    return found[max(found)] if found else None
