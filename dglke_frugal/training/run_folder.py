"""The folder that a run leaves behind: DGL-KE's name for it, DGL-KE's keys in it."""
from __future__ import annotations

import json
import math
import os
import zlib
from pathlib import Path
from typing import Any, Dict, Optional

import numpy as np

from ..config import TrainConfig
from ..data import KnowledgeGraph
from ..errors import InputError
from ..files import replace_file

FLAGS_FILE = "config.yaml"
RESULT_FILE = "result.json"
CHECKPOINTS = "checkpoints"
# Flags that the numbers of a run depend on. All others may change from one part of a run to the next.
IDENTITY = ("dataset", "format", "has_edge_importance", "model_name", "hidden_dim", "gamma", "double_ent", "double_rel",
            "loss_genre", "margin", "pairwise", "neg_adversarial_sampling", "adversarial_temperature",
            "regularization_coef", "regularization_norm", "lr", "batch_size", "neg_sample_size", "neg_deg_sample",
            "num_proc", "matmul", "seed")


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

    plain = {name: list(value) if isinstance(value, (list, tuple)) else value
             for name, value in config.to_flags().items()}
    with replace_file(folder / FLAGS_FILE, "w") as file:
        yaml.safe_dump(plain, file, sort_keys=False)


def identity(config: TrainConfig, graph: KnowledgeGraph) -> Dict[str, Any]:
    """What the numbers of a run depend on: flags, and the training triples by their checksum."""
    flags = config.to_flags()
    checksum = 0
    for column in graph.train:
        checksum = zlib.crc32(np.ascontiguousarray(column), checksum)
    partition = config.device.edge_partition if config.device.ranks > 1 else None
    # Only where it is given, so that runs from before there was this flag can still be resumed.
    names = (*IDENTITY, "init_from") if config.run.init_from else IDENTITY
    return {**{name: flags[name] for name in names}, "partition": partition, "entities": graph.n_entities,
            "relations": graph.n_relations, "training_triples": len(graph.train), "training_checksum": checksum}


def write_result(folder: Path, result: Dict[str, Any]) -> None:
    """Write result.json, by which a run is known to be finished; what is not a finite number becomes null."""
    with replace_file(folder / RESULT_FILE, "w") as file:
        json.dump(_finite(result), file, indent=2)
        file.write("\n")


def read_result(folder: Path) -> Optional[Dict[str, Any]]:
    """The result of a finished run; None if it is not finished. Raises InputError for a file that is damaged."""
    path = Path(folder) / RESULT_FILE
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; remove it to go on from the last checkpoint") from error


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
