"""The names behind a run's ids: where their file is, and whether it is still the one that the run was trained with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Dict, Optional

import numpy as np

from ..data.fingerprint import Fingerprint, file_checksum
from ..data.graph import Names
from ..data.layouts import WITH_COUNTS
from ..data.text import open_input, read_name_map
from ..data.unpacked import unpacked
from ..errors import InputError

_KEYS = {"entity": "emap_file", "relation": "rmap_file"}
_FLAGS = {"entity": "--entity_mfile", "relation": "--rel_mfile"}


def find_map(folder: Path, config: Dict[str, Any], role: str) -> Optional[Path]:
    """The map file that a run's config names, of "entity" or "relation": in the run's folder, or with its data set.

    DGL-KE writes the file's name without saying where it is.
    """
    name = config.get(_KEYS[role])
    if not isinstance(name, str) or not name:
        return None
    data = Path(str(config.get("data_path", "data")))
    base = Path(name).name
    places = [folder / name, folder / base, data / base, data / str(config["dataset"]) / base, data / name, Path(name)]
    files = config.get("data_files")
    if str(config.get("format")).startswith("udd") and isinstance(files, list) and len(files) > 1:
        places.insert(2, data / str(files[("entity", "relation").index(role)]))
    found = next((path for path in places if path.is_file()), None)
    return None if found is None or _is_count_alone(found, config) else found


def names_of_run(folder: Path, config: Dict[str, Any], role: str, path: Path, rows: int) -> Names:
    """The names in a map that `find_map` found, read when the first one is asked for.

    Reading raises InputError if the file has changed since the training, or has not as many names as there are `rows`.
    """
    expected = getattr(Fingerprint.of_mapping(config.get("data")), f"{role}_names")
    return Names(partial(_read, folder, role, path, rows, expected, **_layout(config)))


def names_of_file(folder: Path, role: str, path: Path, rows: int) -> Names:
    """The names in a file that the user gives, read when the first one is asked for. InputError if it is not there."""
    if not path.exists():
        raise InputError(
            f"there is no map file {path}; give the file with an id and a name per line that training wrote")
    return Names(partial(_read, folder, role, path, rows, None))


def _layout(config: Dict[str, Any]) -> Dict[str, Any]:
    """How the map of the run's data set is laid out."""
    form = str(config.get("format", "raw_udd"))
    if form.startswith("raw_udd"):
        return {}
    if form.startswith("udd"):
        return {"delimiter": config.get("delimiter") or "\t"}
    return {"count_line": True} if config["dataset"] in WITH_COUNTS else {"stripped": True}


def _is_count_alone(path: Path, config: Dict[str, Any]) -> bool:
    """Whether a map of Freebase's layout has its first line only."""
    if not _layout(config).get("count_line"):
        return False
    with unpacked(open_input(path)) as file:
        return not file.read(1000).partition(b"\n")[2]


def _read(folder, role, path, rows, expected, **layout):
    if expected is not None and file_checksum(path) != expected:
        raise InputError(
            f"{path} has changed since {folder} was trained, so its names may be of other ids; give back the file that "
            f"it was, or name the right one (load(..., {role}_map=...), or {_FLAGS[role]} on the command line)")
    packed = read_name_map(path, **layout)
    count = len(packed[1]) - 1
    if count != rows:
        raise InputError(
            f"{path} has {count:,} names, but {folder} has {rows:,} rows of {role} embeddings, so it is of other data; "
            f"name the right one (load(..., {role}_map=...), or {_FLAGS[role]} on the command line)")
    return packed


def with_inverses(names: Names) -> Names:
    """Names of the rows of a table of reciprocal relations: those of the relations, then those of their inverses.

    Reading raises InputError if a relation has the name that the inverse of another one gets.
    """

    def load():
        known = set(names)
        for name in known:
            other = name.removesuffix(" (inverse)")
            if other != name and other in known:
                raise InputError(f"the relation {name!r} has the name of the inverse of {other!r}; use ids")
        texts = [text.encode("utf-8") for text in (*names, *(f"{name} (inverse)" for name in names))]
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
        return np.frombuffer(b"".join(texts), np.uint8), offsets

    return Names(load)
