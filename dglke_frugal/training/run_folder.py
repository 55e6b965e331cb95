"""The folder that a run leaves behind: DGL-KE's name for it, DGL-KE's keys in it."""
from __future__ import annotations

import json
import os
from pathlib import Path

from ..config import TrainConfig
from ..errors import InputError
from ..files import replace_file


FLAGS_FILE = "config.yaml"


def create_run_folder(config: TrainConfig) -> Path:
    """Make `<save_path>/<model>_<dataset>_<n>` with the first free n, as DGL-KE names it. Raises InputError."""
    parent = Path(config.run.save_path)
    stem = f"{config.model.model_name}_{config.graph.dataset}_"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        n = sum(name.startswith(stem) for name in os.listdir(parent))
        while True:  # another run may take the number between looking and making
            try:
                (parent / f"{stem}{n}").mkdir()
                return parent / f"{stem}{n}"
            except FileExistsError:
                n += 1
    except OSError as error:
        raise InputError(f"cannot make a folder for the run in {parent}: {error.strerror}; "
                         "give a --save_path that can be written") from error


def write_flags(folder: Path, config: TrainConfig) -> None:
    """Write config.yaml, from which `--config` and `--resume` start the same run again. Raises InputError."""
    import yaml

    plain = {name: list(value) if isinstance(value, (list, tuple)) else value for name, value in config.to_flags().items()}
    with replace_file(folder / FLAGS_FILE, "w") as file:
        yaml.safe_dump(plain, file, sort_keys=False)


def write_config(folder: Path, config: TrainConfig, entity_map: str | None, relation_map: str | None) -> None:
    """Write config.json with the keys of DGL-KE 0.1.2 and of its git HEAD, so that the tools of both read it.

    entity_map, relation_map: files of id and name per line, or None.
    """
    flags = config.to_flags()
    flags["gpu"] = list(flags["gpu"])
    release = {
        "model": flags["model_name"],
        "emb_size": flags["hidden_dim"],
        "max_train_step": flags["max_step"],
        "emap_file": entity_map,
        "rmap_file": relation_map,
        "emp_file": entity_map,  # HEAD's spelling
    }
    with replace_file(folder / "config.json", "w") as file:
        json.dump({**flags, **release}, file, indent=4)
        file.write("\n")
