"""Triples that are given in Python become a data set of files, which `--resume`, dglke_eval and other processes read.

Names are numbered in the order in which they appear. Integers are ids, and so the numbers of rows.
"""
from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Set
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

import numpy as np

from ..arguments import as_array, is_single, path as as_path, plain, read_triples
from ..errors import InputError, shown
from ..files import replace_file
from ..options import check_dataset
from .find_files import LOOKED_FOR, dataset_name, flags_of_path
from .graph import KnowledgeGraph, Names, Triples
from .layouts import SPLITS
from .load import load_graph
from .name_maps import map_lines
from .splitting import distinct, divide
from .table_files import is_missing, name_bytes
from .write_text import lines

_MAPS = {"entity": "entities.tsv", "relation": "relations.tsv"}
_UNUSED_ROWS = 1_000_000  # of ids that no triple has, from which on they are a mistake if most are unused
Check = Callable[[Dict[str, Any], KnowledgeGraph], None]
SPLIT_SEED = 0  # the same triples are held out at each call, whatever the seed of the training


def flags_of_triples(triples: Any, valid: Any = None, test: Any = None, split: Any = None, *, folder: Path,
                     dataset: Optional[str] = None, check: Optional[Check] = None) -> Dict[str, Any]:
    """The flags --dataset, --data_path, --format and --data_files of triples that are given.

    Args:
        triples, valid, test: paths of files, or triples in any form of arguments.read_triples, of names or of ids;
            `triples` may be a folder that has train, valid and test.
        split: shares (train, valid, test) by which `triples` is divided as `dglke_frugal split` does: triples that
            stand there twice are kept once, and train keeps every entity and relation.
        folder: where what is in no file is written to, in a folder of its own.
        dataset: the name of the data set; by default that of the file or folder, or "graph".
        check: called with the flags and the graph before a file is written; if it raises, none is.

    Raises:
        InputError: a path without triples, triples in another form, no triples, a name that no map can hold, names and
            ids in one role, ids that leave most rows unused, or shares that are none.
    """
    if dataset is not None:
        check_dataset(dataset)  # before a folder is named after it
    if isinstance(triples, (str, os.PathLike)):
        place = as_path("triples", triples)
        found = flags_of_path(place)
        if not found:
            what = f"the folder {place} has no file {LOOKED_FOR}" if place.is_dir() else f"there is no file {place}"
            raise InputError(f"triples: {what}; give a file, a folder with such files, or triples")
        if valid is None and test is None and split is None:
            return {**found, "dataset": dataset or found["dataset"]}
        if len(found["data_files"]) > 1:
            raise InputError(f"triples: {place} has {' and '.join(found['data_files'][1:])}; leave valid, test and "
                             "split out, or give its train file alone")
        dataset = dataset or dataset_name(place)
    if split is not None and (valid is not None or test is not None):
        raise InputError("split divides triples, and valid and test are given; leave one of the two out")
    roles = {"entity": _Role("entity"), "relation": _Role("relation")}
    given = {"train": triples, "valid": valid, "test": test}
    splits = {name: _read(name if name != "train" else "triples", each, roles)
              for name, each in given.items() if each is not None}
    if not len(splits["train"]):
        raise InputError("triples has no row; give at least one triple")
    if split is not None:
        splits = _divided(splits["train"], split)
    return _write({name: each for name, each in splits.items() if len(each)}, roles, folder, dataset or "graph", check)


class _Role:
    """Entities or relations: whether they are names or ids, and which id each name has."""

    def __init__(self, name: str):
        self.name = name
        self.known: Dict[str, int] = {}
        self.encoded: List[bytes] = []
        self.by_ids: Optional[bool] = None
        self._first = ""  # the column that said so first

    def ids(self, split: str, what: str, items: Any) -> np.ndarray:
        """The ids (n,) int64 of a column's names or ids."""
        if isinstance(items, (Mapping, Set)):  # pandas' to_dict() gives dictionaries, which yield their row numbers
            raise InputError(f"the {what} of {split} are a {type(items).__name__}; give a list or an array")
        if hasattr(items, "detach"):
            items = as_array(items)
        elif hasattr(items, "to_pylist"):  # of pyarrow, whose own elements are objects of its types
            items = items.to_pylist()
        dtype = getattr(items, "dtype", None)
        if not isinstance(dtype, np.dtype) or dtype.kind not in "iu" or is_single(items):  # others may have gaps
            items = [items] if is_single(items) else list(items)
            by_ids = all(isinstance(each, (int, np.integer)) and not isinstance(each, (bool, np.bool_))
                         for each in items) and len(items) > 0
            gap = next((row for row, each in enumerate(items) if not isinstance(each, str) and is_missing(each)), None)
            if gap is not None:  # said before what a gap makes of a column: integers become fractions or objects
                self._number(f"{split}, row {gap}", what.rstrip("s"), items[gap])
        else:
            by_ids = True
        if not len(items):
            return np.empty(0, np.int64)
        where = f"the {what} of {split}"
        if self.by_ids is None:
            self.by_ids, self._first = by_ids, where
        if self.by_ids != by_ids:
            names, integers = (self._first, where) if by_ids else (where, self._first)
            raise InputError(f"{names} are names and {integers} are integers, which are ids; give names everywhere, "
                             "such as column.astype(str)")
        if not by_ids:
            return self._numbered(split, what.rstrip("s"), items)
        array = np.asarray(items)
        least, most = int(array.min()), int(array.max())
        if least < 0 or most >= 2**62:
            raise InputError(f"{where}: {shown(least if least < 0 else most)} is no id; ids are integers from 0 on, "
                             "below 2**62")
        return array.astype(np.int64)

    def _numbered(self, split: str, role: str, items: List[Any]) -> np.ndarray:
        known, found = self.known, []
        for row, item in enumerate(items):
            number = known.get(item) if isinstance(item, str) else None
            found.append(self._number(f"{split}, row {row}", role, item) if number is None else number)
        return np.array(found, np.int64)

    def _number(self, where: str, role: str, item: Any) -> int:
        text = name_bytes(where, role, plain(item) if hasattr(item, "tolist") else item)
        number = self.known.setdefault(text.decode(), len(self.known))
        if number == len(self.encoded):
            self.encoded.append(text)
        return number

    def names(self, columns: List[np.ndarray]) -> Names:
        """All names by id. columns: where ids of this role stand. InputError for ids that leave most rows unused."""
        encoded = self.encoded
        if self.by_ids:
            most = int(max(column.max(initial=0) for column in columns)) + 1
            used = sum(len(np.unique(column)) for column in columns)
            if most - used > max(_UNUSED_ROWS, 10 * used):
                raise InputError(f"the {self.name} ids go up to {most - 1:,}, and no more than {used:,} of them are "
                                 "used; ids are numbers of rows, so number them without gaps, or give names, such as "
                                 "column.astype(str)")
            encoded = [b"%d" % number for number in range(most)]
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
        packed = np.frombuffer(b"".join(encoded), np.uint8), offsets
        return Names(lambda: packed)


def _read(split: str, given: Any, roles: Mapping[str, _Role]) -> Triples:
    if isinstance(given, (str, os.PathLike)):
        place = as_path(split, given)
        flags = {} if place.is_dir() else flags_of_path(place)
        if not flags:
            raise InputError(f"{split}: {place} is no file of triples; give one, or triples")
        graph = load_graph(flags["dataset"], flags["data_path"], flags["format"], flags["data_files"])
        entities, relations = list(graph.entity_names or ()), list(graph.relation_names or ())
        head, relation, tail = graph.train
        given = ([entities[i] for i in head.tolist()], [relations[i] for i in relation.tolist()],
                 [entities[i] for i in tail.tolist()])

    if isinstance(given, Set):
        raise InputError(f"{split}: a set has no order, and the numbers of a training go by it; give a list, such as "
                         "sorted(triples)")

    def read(what: str, items: Any) -> np.ndarray:
        return roles["relation" if what == "relations" else "entity"].ids(split, what, items)

    try:
        return Triples(*read_triples(given, read))
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith((split, "the ")) else f"{split}: {message}") from None


def _divided(triples: Triples, shares: Any) -> Dict[str, Triples]:
    numbers = plain(shares)
    if not isinstance(numbers, list) or len(numbers) != 3 or not all(
            isinstance(each, (int, float)) and not isinstance(each, bool) and 0 <= each <= 1 for each in numbers) or (
            not math.isclose(sum(numbers), 1, abs_tol=1e-6) or not numbers[0]):
        raise InputError(f"split is {shown(shares, repr)}; give the shares of train, valid and test, which sum to 1, "
                         "such as (.9, .05, .05)")
    first = distinct(triples)
    once = Triples(*(column[first] for column in triples))
    parts = divide(once, round(numbers[1] * len(once)), round(numbers[2] * len(once)), SPLIT_SEED)
    return {name: Triples(*(column[part] for column in once)) for name, part in parts.items()}


def _write(splits: Mapping[str, Triples], roles: Mapping[str, _Role], folder: Path, dataset: str,
           check: Optional[Check]) -> Dict[str, Any]:
    columns = {"entity": [c for each in splits.values() for c in (each.head, each.tail)],
               "relation": [each.relation for each in splits.values()]}
    names = {role: roles[role].names(columns[role]) for role in _MAPS}
    content = {file: b"".join(map_lines(names[role])) for role, file in _MAPS.items()}
    content.update({f"{name}_ids.tsv": lines([*splits[name]]) for name in SPLITS if name in splits})
    checksum = hashlib.sha256()
    for name, data in content.items():
        checksum.update(f"{name} {len(data)}\n".encode() + data)
    place = folder / "data" / f"{dataset}-{checksum.hexdigest()[:12]}"  # the same triples are the same files
    flags = {"dataset": dataset, "data_path": str(place), "format": "udd_hrt", "data_files": list(content)}
    if check is not None:
        check(flags, KnowledgeGraph(dataset, len(names["entity"]), len(names["relation"]), splits["train"],
                                    splits.get("valid"), splits.get("test")))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {place} for the triples: {error.strerror}; give a save_path that can "
                         "be written") from error
    for name, data in content.items():
        with replace_file(place / name) as file:
            file.write(data)
    return flags
