"""Reading a run's tables and its config.json, whoever wrote them: us, DGL-KE 0.1.2 or its git HEAD."""

from __future__ import annotations

import os
import shlex
import zlib
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Union

import numpy as np

from ..data import ogb
from ..data.fingerprint import file_checksum
from ..divergence import checked_blocks
from ..errors import InputError, remedy_of_reading, shown
from ..evaluation.model import EmbeddingModel
from ..files import check_replaced, read_json
from ..models import built_in_model, find_model, is_custom, model_names
from ..npy_files import read_npy
from ..options import LARGEST
from ..saved_tables import SavedTables
from ..score_rule import SCORE_RULES, score_rule_of_dglke_run

PathLike = Union[str, os.PathLike]


def read_config(folder: PathLike) -> Dict[str, Any]:
    """config.json of a run, under DGL-KE's flag names (model_name, hidden_dim, gamma, ...) whichever version wrote it.

    score_rule is always there: a run that does not name its own has that of DGL-KE.
    data_path is where the data set is found today, an absolute path.

    Raises InputError: no such folder or file, no JSON object in it, or values of a wrong kind.
    """
    folder = Path(folder)
    path = folder / "config.json"
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give the folder of a run, such as ckpts/TransE_l2_FB15k_0")
    check_replaced(folder)
    try:
        config = read_json(path, "copy it again from the run that wrote it")
    except FileNotFoundError:
        raise InputError(_why_no_config(folder)) from None
    if not isinstance(config, dict):
        raise InputError(f"{path} holds no JSON object; copy it again from the run that wrote it")
    for ours, release in (("model_name", "model"),
                          ("hidden_dim", "emb_size"),
                          ("max_step", "max_train_step"),
                          ("emap_file", "emp_file")):
        if config.get(ours) is None and config.get(release) is not None:
            config[ours] = config[release]
    needed = {"model_name": str, "dataset": str, "hidden_dim": int, "gamma": (int, float)}
    for key in needed:
        if key not in config:
            raise InputError(f"{path} lacks {key!r}; add it, as it was given to the training run")
    for key, kind in {**needed, "delimiter": (str, type(None)), "data_files": (list, type(None))}.items():
        value = config.get(key)
        items = value if isinstance(value, list) else []
        if not isinstance(value, kind) or isinstance(value, bool) or not all(isinstance(item, str) for item in items):
            raise InputError(
                f"{path} has {shown(value, repr)} for {key!r}; put the value given to the training run there")
    if not is_custom(config["model_name"]) and built_in_model(config["model_name"]) is None:
        raise InputError(
            f"{path} names the model {shown(config['model_name'])!r}; known are {', '.join(model_names())}")
    if config.setdefault("score_rule", score_rule_of_dglke_run(config["model_name"])) not in SCORE_RULES:
        raise InputError(
            f"{path} has {shown(config['score_rule'], repr)} for 'score_rule'; it is one of {', '.join(SCORE_RULES)}")
    if not (1 <= config["hidden_dim"] < 2**63 and abs(config["gamma"]) <= LARGEST):
        raise InputError(f"{path} has hidden_dim {shown(config['hidden_dim'])} and gamma {shown(config['gamma'])}; "
                         "put the values given to the training run there")
    config["data_path"] = str(_data_path(folder, config))
    return config


def _data_path(folder: Path, config: Mapping[str, Any]) -> Path:
    """Where the run's data set is: where the training found it, or as far from the run's folder as it was then, so that
    neither another working directory nor a move of both loses it. The former if it is in neither place."""
    recorded = Path(str(config.get("data_path") or "data"))
    saved = Path(str(config.get("save_path") or "ckpts")).absolute()
    if saved.name != folder.absolute().name:  # DGL-KE writes the folder of the run there
        saved /= "run"
    relocated = Path(os.path.normpath(folder.absolute() / os.path.relpath(recorded.absolute(), saved)))
    places = [recorded, relocated] if recorded.is_absolute() else [relocated, recorded]
    return next((place for place in places if has_data(place, config)), recorded).absolute()


def has_data(place: Path, config: Mapping[str, Any]) -> bool:
    """Whether the data set that a run's config.json names is in the folder `place`."""
    if str(config.get("format") or "built_in") != "built_in":
        files = config.get("data_files")
        return bool(files) and isinstance(files, list) and (place / str(files[-1])).exists()
    dataset = str(config.get("dataset"))
    return (place / dataset).exists() or dataset in ogb.NAMES and ogb.find(dataset, place) is not None


def _why_no_config(folder: Path) -> str:
    """A sentence: the run was interrupted, saved nothing, or is none."""
    if not is_unsaved_run(folder):
        return f"{folder} has no config.json; give the folder that a training run wrote"
    if any(folder.glob("*.npy")):
        return f"{folder} has tables, and its config.json is gone; copy it again from the run that wrote it"
    if (folder / "result.json").exists():
        return f"{folder} has no tables, it was trained with --no_save_emb; train it again without"
    again = f"dglke_train --resume {shlex.quote(str(folder))}"
    return f"{folder} is a run that has not ended and has no tables yet; go on with it: {again}"


def is_unsaved_run(folder: PathLike) -> bool:
    """Whether the folder is that of a run of ours that has not saved its tables (yet)."""
    folder = Path(folder)
    return (folder / "config.yaml").is_file() and not (folder / "config.json").exists()


def is_reciprocal(folder: PathLike) -> bool:
    """Whether the folder is that of a run whose relation table has a row for each relation's inverse, too."""
    return (Path(folder) / "config.json").is_file() and bool(read_config(folder).get("reciprocal", False))


def read_table(path: PathLike, check_values: bool = True, saved: Optional[SavedTables] = None) -> np.ndarray:
    """A table (rows, dim) that np.save wrote: float32 is memory-mapped, float16 (--save_dtype) read as float32.

    check_values: look for NaN and infinite numbers, and whether the file is the one that was saved, which reads it
    once. saved: what is known of it, by default what a config.json next to it says.

    Raises InputError: missing, damaged, of another type or shape, not the file that was saved, or with values that are
    no numbers.
    """
    path = Path(path)
    check_replaced(path.parent)
    saved = SavedTables.of(path.parent) if saved is None else saved
    try:
        table = read_npy(path)
    except FileNotFoundError:
        raise InputError(f"there is no {path}; a training without --no_save_emb writes tables, whose names begin with "
                         "those of its data set and model") from None
    except (OSError, ValueError) as error:
        remedy = remedy_of_reading(error, "copy it again from the run that wrote it")
        raise InputError(f"cannot read {path}: {error}; {remedy}") from error
    if table.ndim != 2 or table.dtype not in (np.float32, np.float16):
        raise InputError(f"{path} holds {table.dtype} of shape {table.shape}; an embedding table is float32 or float16 "
                         "with one row per id")
    if 0 in table.shape:
        raise InputError(f"{path} is empty (shape {table.shape}); copy it again from the run that wrote it")
    if check_values:
        _check_values(path, table, saved)
    if table.dtype == np.float16 or not table.flags.c_contiguous:
        table = np.ascontiguousarray(table, np.float32)
    return table


def _check_values(path: Path, table: np.memmap, saved: SavedTables) -> None:
    with open(path, "rb") as file:
        checksum = zlib.crc32(file.read(table.offset))
    for _, _, block in checked_blocks(table, str(path)):
        if path.name in saved.checksums:
            checksum = zlib.crc32(np.ascontiguousarray(block), checksum)
    if path.name in saved.checksums:
        saved.check(path, checksum)


def read_model(folder: PathLike, dataset: str, model_name: str, hidden_dim: int, gamma: float,
               check_values: bool = True, config: Optional[Dict[str, Any]] = None,
               score_rule: Optional[str] = None) -> EmbeddingModel:
    """The tables of a run as a model; nothing is read into memory before it is used, except to check its values.

    config: the run's double_ent and double_rel, if known, and whether relations are reciprocal. score_rule: by default
    that of `config`, or else the textbook's.

    Raises InputError: see read_table; also for shapes that do not fit the model.
    """
    stem = Path(folder) / f"{dataset}_{model_name}"
    saved = SavedTables.of(folder)  # once for all tables: they may be replaced meanwhile
    entity = read_table(f"{stem}_entity.npy", check_values, saved)
    relation = read_table(f"{stem}_relation.npy", check_values, saved)
    model = built_in_model(model_name)
    projection = read_table(f"{stem}projection.npy", check_values, saved) if model and model.projects else None
    sizes = {hidden_dim, 2 * hidden_dim}
    if config is not None and "double_ent" in config:
        sizes = {2 * hidden_dim if config["double_ent"] else hidden_dim}
    if entity.shape[1] not in sizes:
        raise InputError(
            f"{stem}_entity.npy has rows of {entity.shape[1]} numbers, but a hidden dimension of {hidden_dim} "
            f"makes {' or '.join(map(str, sorted(sizes)))}; give the --hidden_dim of the training run")
    scorer = _custom_scorer(Path(folder), stem.name, model_name, saved) if is_custom(model_name) else None
    return EmbeddingModel(model_name, gamma, hidden_dim, entity, relation, projection,
                          score_rule=score_rule or (config or {}).get("score_rule", "textbook"), scorer=scorer,
                          reciprocal=bool((config or {}).get("reciprocal", False)))


def _custom_scorer(folder: Path, stem: str, model_name: str, saved: SavedTables):
    """A custom model with the state that was saved, None if it has none."""
    from ..models.custom_state import has_state, load_state, state_file  # here, because it takes torch's import time

    scorer = find_model(model_name)
    if not has_state(scorer):
        return None
    file = state_file(folder, stem)
    load_state(scorer, file)
    saved.check(file, file_checksum(file))
    return scorer
