"""Data sets of the Open Graph Benchmark, read from OGB's own directories; the ogb package is not needed.

ogbl-wikikg2, ogbl-biokg: `split/<kind>/{train,valid,test}.pt`, dictionaries of arrays; counts in `raw/`, names in
`mapping/`. WikiKG90M, WikiKG90Mv2: `processed/*.npy` and `meta.pt`. (https://ogb.stanford.edu, Hu et al. 2020, 2021)
"""
from __future__ import annotations

import contextlib
import csv
import gzip
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterator, Optional, Sequence, Tuple

import numpy as np

from ..errors import InputError
from ..extras import install_command
from ..npy_files import read_npy
from ..progress import progress
from .cache import Sink
from .text import open_input

BLOCK_VALUES = 1 << 20  # numbers of an .npy file that are read together


@dataclass(frozen=True)
class OgbLayout:
    """Where a data set of OGB lies.

    split: the kind of split of the link data sets ("time", "random"); None for the large ones in .npy files.
    """

    name: str
    folder: Path
    split: Optional[str]

    @property
    def sources(self) -> Sequence[Path]:
        """All files that decide what is read."""
        if self.split is None:
            parts = ("train_hrt", "val_hr", "val_t", "val_t_correct_index", "val_t_candidate")
            return [*(self.folder / "processed" / f"{part}.npy" for part in parts), self.folder / "meta.pt"]
        splits = (self.folder / "split" / self.split / f"{split}.pt" for split in ("train", "valid", "test"))
        return [*splits, self.counts]

    @property
    def counts(self) -> Path:
        """The file with the numbers of entities of a link data set."""
        return self.folder / "raw" / ("num-node-list.csv.gz" if self.name == "wikikg2" else "num-node-dict.csv.gz")


_FOLDERS = {"wikikg2": (("ogbl_wikikg2",), "time"),
            "biokg": (("ogbl_biokg",), "random"),
            "wikikg90M": (("wikikg90m_kddcup2021", "wikikg90m"), None),
            "wikikg90Mv2": (("wikikg90m-v2",), None)}
NAMES = tuple(_FOLDERS)


def find(dataset: str, root: Path) -> Optional[OgbLayout]:
    """The directory of OGB's `dataset` below `root`, where ogb unpacks it, or None."""
    folders, split = _FOLDERS[dataset]
    for folder in (*folders, dataset):
        marks = ("processed",) if split is None else ("split", "raw")
        if any((root / folder / mark).is_dir() for mark in marks):
            return OgbLayout(dataset, root / folder, split)
    return None


def how_to_get(dataset: str, root: Path) -> InputError:
    """The message where a data set that only ogb distributes is missing."""
    (folder, *_), _ = _FOLDERS[dataset]
    reader = "WikiKG90MDataset" if dataset == "wikikg90M" else "WikiKG90Mv2Dataset"
    return InputError(f"{root / folder} is missing; fetch it with the ogb package ({install_command('ogb')}): "
                      f"from ogb.lsc import {reader}; {reader}(root={str(root)!r})")


def build(layout: OgbLayout, sink: Sink) -> dict:
    """Reads the triples of `layout` into columns `<split>.head` and so on; returns n_entities and n_relations."""
    return _build_npy(layout, sink) if layout.split is None else _build_pt(layout, sink)


# The link data sets: ogbl-wikikg2 and ogbl-biokg.


def load_pt(path: Path) -> dict:
    """A dictionary that torch.save wrote, loaded without running code from it."""
    import torch

    with open_input(path):  # for its sentence where there is no such file
        pass
    if hasattr(torch.serialization, "safe_globals"):
        allowed = torch.serialization.safe_globals(_numpy_globals())
    else:  # torch 2.4 can only allow them for good
        allowed = contextlib.nullcontext(torch.serialization.add_safe_globals(_numpy_globals()))
    try:
        with allowed:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds; all mean that this is not the file it should be
        raise InputError(f"{path} is damaged, or holds more than arrays of numbers; "
                         "fetch the data set again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no dictionary; fetch the data set again")
    return content


def _numpy_globals() -> list:
    """The functions that a pickled array of numbers refers to, under the names of NumPy 1 and 2."""
    try:
        from numpy._core.multiarray import _reconstruct
    except ImportError:
        from numpy.core.multiarray import _reconstruct

    aliases = []
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        def alias(*arguments):
            return _reconstruct(*arguments)

        alias.__module__, alias.__name__, alias.__qualname__ = module, "_reconstruct", "_reconstruct"
        aliases.append(alias)
    types = {type(np.dtype(name)) for name in ("int16", "int32", "int64", "float32", "float64", "bool")}
    return [*aliases, np.ndarray, np.dtype, *types]


def _build_pt(layout: OgbLayout, sink: Sink) -> dict:
    offsets, n_entities = _entity_offsets(layout)
    n_relations = 0
    for split in ("train", "valid", "test"):
        path = layout.folder / "split" / layout.split / f"{split}.pt"
        content = load_pt(path)
        rows = None
        for column in ("head", "relation", "tail"):
            values = _integers(path, content, column, (rows,))
            rows = len(values)
            if rows == 0:
                raise InputError(f"{path} has no triples; fetch the data set again")
            if column == "relation":
                if split == "train":
                    n_relations = int(values.max()) + 1
                _check_range(path, column, values, n_relations)
            else:
                values = _global_ids(path, content, column, values, offsets, n_entities)
            sink.empty(f"{split}.{column}", rows, np.int32)[:] = values
            content.pop(column)
    return {"n_entities": n_entities, "n_relations": n_relations}


def _entity_offsets(layout: OgbLayout) -> Tuple[Optional[Dict[str, Tuple[int, int]]], int]:
    """First id and number of each type of entity (None where there is one type), and the number of all entities.

    Types are numbered one after the other in the order of their names, as ogb's own examples do.
    """
    path = layout.counts
    rows = _csv(path)
    if layout.name == "wikikg2":
        return None, _count(path, 1, rows[0][0] if rows and rows[0] else "")
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        raise InputError(f"{path} must have a line of entity types and a line of their numbers; "
                         "fetch the data set again")
    offsets, end = {}, 0
    for kind, number in sorted(zip(rows[0], rows[1])):
        count = _count(path, 2, number)
        offsets[kind] = (end, count)
        end += count
    return offsets, end


def _count(path: Path, line: int, value: str) -> int:
    if not value.isdigit() or int(value) == 0:
        raise InputError(f"{path}, line {line}: {value!r} is not a number of entities; fetch the data set again")
    return int(value)


def _csv(path: Path) -> list:
    try:
        with open_input(path) as file, gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
            return list(csv.reader(lines))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a sound gzip file of CSV ({error}); fetch the data set again") from error


def _integers(path: Path, content: dict, key: str, shape: tuple) -> np.ndarray:
    """content[key] as an array of integers; None in `shape` is any length."""
    if key not in content:
        raise InputError(f"{path} lacks {key!r}; fetch the data set again")
    values = content[key]
    values = values.numpy() if hasattr(values, "numpy") else np.asanyarray(values)
    fits = values.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, values.shape))
    if not fits or values.dtype.kind not in "iu":
        wanted = " x ".join("any" if want is None else str(want) for want in shape)
        raise InputError(f"{path}: {key!r} is {values.dtype} of shape {values.shape}, "
                         f"not integers of shape ({wanted}); fetch the data set again")
    return values


def _check_range(path: Path, what: str, values: np.ndarray, bound, first_row: int = 0) -> None:
    wrong = (values < 0) | (values >= bound)
    if wrong.any():
        row = int(np.argmax(wrong.reshape(len(values), -1).any(axis=1)))
        value = int(values[row][wrong[row]].flat[0]) if values.ndim > 1 else int(values[row])
        limit = int(bound if np.ndim(bound) == 0 else np.broadcast_to(bound, values.shape)[row].flat[0])
        raise InputError(f"{path}, row {first_row + row}: {what} {value} is not between 0 and {limit - 1}; "
                         "fetch the data set again")


def _global_ids(path: Path, content: dict, column: str, values: np.ndarray, offsets, n_entities: int) -> np.ndarray:
    """Ids over all types from ids within their type; `column` is "head" or "tail", `values` (n,) or (n, k)."""
    if offsets is None:
        _check_range(path, column, values, n_entities)
        return values
    kinds = content.get(f"{column}_type")
    if kinds is None or len(kinds) != len(values):
        raise InputError(f"{path} lacks {column + '_type'!r} for each triple; fetch the data set again")
    unknown = next((kind for kind in dict.fromkeys(kinds) if kind not in offsets), None)
    if unknown is not None:
        raise InputError(f"{path}: {column}_type {unknown!r} is none of {', '.join(offsets)}; fetch the data set again")
    begin_and_count = np.array([offsets[kind] for kind in kinds], np.int64)
    begin, count = begin_and_count.T if values.ndim == 1 else begin_and_count.T[:, :, None]
    _check_range(path, column, values, count)
    return values + begin


# The large ones: WikiKG90M and WikiKG90Mv2.


def _build_npy(layout: OgbLayout, sink: Sink) -> dict:
    meta = load_pt(layout.folder / "meta.pt")
    counts = []
    for key in ("num_entities", "num_relations"):
        if not isinstance(meta.get(key), (int, np.integer)) or meta[key] <= 0:
            raise InputError(f"{layout.folder / 'meta.pt'} lacks a number {key!r}; fetch the data set again")
        counts.append(int(meta[key]))
    n_entities, n_relations = counts
    processed = layout.folder / "processed"
    bounds = (n_entities, n_relations, n_entities)
    _copy_columns(processed / "train_hrt.npy", "train", ("head", "relation", "tail"), bounds, sink)

    rows = _copy_columns(processed / "val_hr.npy", "valid", ("head", "relation"), bounds, sink)
    tail = sink.empty("valid.tail", rows, np.int32)
    path = processed / "val_t.npy"
    if path.exists() or layout.name == "wikikg90Mv2":
        values = load_npy(path, (rows,))
        _check_range(path, "tail", values, n_entities)
        tail[:] = values
    else:  # version 1 tells the tail as a place among candidates
        place = load_npy(processed / "val_t_correct_index.npy", (rows,))
        path = processed / "val_t_candidate.npy"
        for begin, block in _blocks(path, (rows, None)):
            part = slice(begin, begin + len(block))
            _check_range(processed / "val_t_correct_index.npy", "index", place[part], block.shape[1], begin)
            values = block[np.arange(len(block)), place[part]]
            _check_range(path, "tail", values, n_entities, begin)
            tail[part] = values
    return {"n_entities": n_entities, "n_relations": n_relations}


def load_npy(path: Path, shape: tuple) -> np.ndarray:
    """An array of integers, memory-mapped; None in `shape` is any length."""
    with open_input(path):
        pass
    try:
        values = read_npy(path)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged or no .npy file of numbers ({str(error)[:120]}); "
                         "fetch the data set again") from error
    return _integers(path, {path.stem: values}, path.stem, shape)


def _blocks(path: Path, shape: tuple) -> Iterator[Tuple[int, np.ndarray]]:
    """Rows of a two-dimensional .npy file as (number of the first, array), with plain reads: the pages of a mapped file
    would count as memory."""
    table = load_npy(path, shape)
    (rows, width), dtype, start = table.shape, table.dtype, table.offset
    if not table.size:
        raise InputError(f"{path} has no rows or no columns; fetch the data set again")
    if not table.flags.c_contiguous:
        raise InputError(f"{path} is stored by columns; write it again in C order")
    del table
    together = max(1, BLOCK_VALUES // width)
    with open_input(path) as file, progress(rows, f"reading {path.name}", "rows") as bar:
        file.seek(start)
        for begin in range(0, rows, together):
            block = np.fromfile(file, dtype, min(together, rows - begin) * width).reshape(-1, width)
            yield begin, block
            bar.update(len(block))


def _copy_columns(path: Path, split: str, columns: Sequence[str], bounds: Sequence[int], sink: Sink) -> int:
    """The columns of an (n, k) .npy file, one array each; returns n."""
    rows = len(load_npy(path, (None, len(columns))))
    out = [sink.empty(f"{split}.{column}", rows, np.int32) for column in columns]
    for begin, block in _blocks(path, (rows, len(columns))):
        for column, values, bound, target in zip(columns, block.T, bounds, out):
            _check_range(path, column, values, bound, begin)
            target[begin : begin + len(block)] = values
    return rows


# Candidates and names are read only when they are asked for.


def candidates(layout: OgbLayout) -> Dict[str, Dict[str, Callable[[], np.ndarray]]]:
    """The arrays of OGB's evaluation protocols, by split and OGB's name for them.

    Link data sets: head_neg, tail_neg (n, 500) with global ids. The large ones: hr (n, 2), t (n,), t_candidate
    (n, 1001), t_correct_index (n,), and tr, h_candidate and h_correct_index likewise, each where there is a file of it;
    memory-mapped.
    """
    if layout.split is not None:
        return {split: {key: partial(_pt_candidates, layout, split, key) for key in ("head_neg", "tail_neg")}
                for split in ("valid", "test")}
    found: Dict[str, Dict[str, Callable[[], np.ndarray]]] = {}
    widths = {"hr": 2, "tr": 2, "t_candidate": None, "h_candidate": None}
    for prefix in ("val", "test", "test-dev", "test-challenge"):
        split = "valid" if prefix == "val" else prefix
        for key in ("hr", "t", "t_candidate", "t_correct_index", "tr", "h_candidate", "h_correct_index"):
            path = layout.folder / "processed" / f"{prefix}_{key}.npy"
            if path.exists():
                shape = (None, widths[key]) if key in widths else (None,)
                found.setdefault(split, {})[key] = partial(load_npy, path, shape)
    return found


def _pt_candidates(layout: OgbLayout, split: str, key: str) -> np.ndarray:
    path = layout.folder / "split" / layout.split / f"{split}.pt"
    offsets, n_entities = _entity_offsets(layout)
    content = load_pt(path)
    rows = len(_integers(path, content, "relation", (None,)))
    values = _integers(path, content, key, (rows, None))
    return _global_ids(path, content, key[:4], values, offsets, n_entities).astype(np.int32)


def read_names(layout: OgbLayout, role: str) -> Tuple[np.ndarray, np.ndarray]:
    """Names of the link data sets from `mapping/`, packed as `Names` wants them."""
    mapping = layout.folder / "mapping"
    if layout.name == "wikikg2":
        files = [mapping / ("nodeidx2entityid.csv.gz" if role == "entity" else "reltype2relid.csv.gz")]
        offsets = None
    else:
        offsets, _ = _entity_offsets(layout)
        files = ([mapping / f"{kind}_entidx2name.csv.gz" for kind in offsets] if role == "entity"
                 else [mapping / "relidx2relname.csv.gz"])
    names = []
    for path in files:
        for line, row in enumerate(_csv(path)[1:], 2):
            if len(row) < 2 or row[0] != str(line - 2):
                raise InputError(f"{path}, line {line} must be {line - 2} and a name; fetch the data set again")
            names.append(f"{path.name.split('_')[0]}:{row[1]}" if len(files) > 1 else row[1])
    packed = [name.encode("utf-8") for name in names]
    return np.frombuffer(b"".join(packed), np.uint8), np.cumsum([0, *map(len, packed)], dtype=np.int64)
