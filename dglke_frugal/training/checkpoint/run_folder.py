"""The folder that a run leaves behind: DGL-KE's name for it, DGL-KE's keys in it."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

from ...data import KnowledgeGraph
from ...data.fingerprint import Fingerprint, checksum_of
from ...errors import InputError
from ...files import check_kinds, check_replaced, read_json, replace_file, write_json
from ...options import OPTIONS, TrainConfig, numbers_flags
from ...saved_tables import CONFIG_FILE, KEY, SavedTables
from .checkpoint import Checkpoint

FLAGS_FILE = "config.yaml"
RESULT_FILE = "result.json"
DAMAGED = "remove it to go on from the last checkpoint"  # what to do with such a result
CHECKPOINTS = "checkpoints"
PROTOCOL = ("eval_percent", "batch_size_eval", "neg_sample_size_eval", "neg_deg_sample_eval", "no_eval_filter")
_METRICS = dict.fromkeys(("MRR", "MR", "HITS@1", "HITS@3", "HITS@10"), float)
# Of the values of a result that are read.
_KINDS = {"steps": float, "epochs": float, "peak_host_bytes": float, "seconds": {"training": float},
          "training": {"triples_per_second": float, "stall_share": float, "store": {"hit_share": float}},
          "test": _METRICS, "best_validation": _METRICS, "chance": {}, "hardware": {"gpus": list}, "ranks": list}
DATA_KEYS = tuple(Fingerprint().to_dict())  # of an identity, in addition to the flags


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
             for name, value in _found_from_anywhere(config.to_flags()).items()}
    with replace_file(folder / FLAGS_FILE, "w") as file:
        yaml.safe_dump(plain, file, sort_keys=False)


def _found_from_anywhere(flags: Dict[str, Any]) -> Dict[str, Any]:
    """Flags with whole paths: a run is read and resumed from other working directories than that of the training."""
    return {**flags, **{name: os.path.abspath(flags[name]) for name in ("data_path", "save_path")}}


def fingerprint(config: TrainConfig, graph: KnowledgeGraph) -> Fingerprint:
    """That of a run's data: of all triples that its numbers depend on. Raises InputError."""
    by_validations = config.run.lr_patience or config.run.early_stop_patience
    return Fingerprint.of(graph, _validated(config) if by_validations else ())


def validation_identity(config: TrainConfig, graph: KnowledgeGraph) -> Dict[str, Any]:
    """Flags and checksums of triples that two validations must share for their metrics to be comparable."""
    flags = config.to_flags()
    return {**{name: flags[name] for name in PROTOCOL if OPTIONS[name].used.holds(config)},
            **{split: checksum_of(graph.splits.get(split, ())) for split in _validated(config)}}


def _validated(config: TrainConfig) -> Sequence[str]:
    """The parts of the data, besides the training triples, that validations depend on."""
    return ["valid"] if config.evaluation.no_eval_filter else ["valid", "test"]


def identity(config: TrainConfig, data: Fingerprint) -> Dict[str, Any]:
    """The flags and the data that the numbers of a run depend on, the same in all parts of it."""
    return {**numbers_flags(config), **data.to_dict()}


def check_same_flags(config: TrainConfig, checkpoint: Optional[Checkpoint]) -> None:
    """Raise InputError, naming the flags, if a run's numbers would be others than those of its checkpoint, if any."""
    if checkpoint is not None:
        checkpoint.check_config(numbers_flags(config), apart_from=DATA_KEYS)


def check_data(folder: Path, identity: Dict[str, Any], now: Fingerprint) -> None:
    """Raise InputError if a run's data are not those of its checkpoint's identity."""
    changed = now.difference(Fingerprint.of_mapping(identity))
    if changed:
        raise InputError(f"the data have changed since {folder} was trained on them: {changed}; "
                         "give back the files that they were with --data_path and --data_files, or start a new run")


def write_result(folder: Path, result: Dict[str, Any]) -> None:
    """Write result.json, by which a run is known to be finished; what is not a finite number becomes null."""
    write_json(folder / RESULT_FILE, result)


def read_result(folder: Path) -> Optional[Dict[str, Any]]:
    """The result of a finished run; None if it is not finished. Raises InputError for a file that is damaged, or for
    files that are not all in their place."""
    check_replaced(folder)
    path = Path(folder) / RESULT_FILE
    try:
        result = read_json(path, DAMAGED)
    except FileNotFoundError:
        return None
    check_kinds(path, result, _KINDS, DAMAGED)
    return result


def finished_steps(folder: Path) -> Optional[Tuple[int, int]]:
    """(steps that a finished run has trained, steps up to which it is finished), which are more if it stopped early.

    None if it is not finished. Raises InputError for a file that is damaged.
    """
    result = read_result(folder)
    if result is None:
        return None
    steps, early, most = (result.get(name) for name in ("steps", "stopped_early", "max_step"))
    reached = most if early else steps
    if not isinstance(steps, int) or not isinstance(reached, int):
        raise InputError(f"{Path(folder) / RESULT_FILE} does not say how many steps are trained; {DAMAGED}")
    return steps, reached


def write_config(folder: Path, config: TrainConfig, graph: KnowledgeGraph, data: Fingerprint,
                 run_folder: Optional[Path] = None, saved: Optional[SavedTables] = None) -> None:
    """Write config.json with the keys of DGL-KE 0.1.2 and of its git HEAD, so that the tools of both read it.

    Maps that lie in the run's folder (that of config.json, if it is not given) are named without it. `data` is what the
    graph is known by, `saved` what the tables next to config.json are known by.
    """
    run_folder = run_folder or folder
    entity_map, relation_map = (None if path is None else path.name if path.parent == run_folder else str(path)
                                for path in (graph.entity_map, graph.relation_map))
    flags = _found_from_anywhere(config.to_flags())
    flags["gpu"] = list(flags["gpu"])
    release = {
        "model": flags["model_name"],
        "emb_size": flags["hidden_dim"],
        "max_train_step": flags["max_step"],
        "emap_file": entity_map,
        "rmap_file": relation_map,
        "emp_file": entity_map,  # HEAD's spelling
        "data": data.to_dict(),
        **({} if saved is None else {KEY: saved.to_dict()})}
    with replace_file(folder / CONFIG_FILE, "w") as file:
        json.dump({**flags, **release}, file, indent=4)
        file.write("\n")
