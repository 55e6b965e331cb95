"""Owners of entities by METIS, which keeps neighbouring entities together.

The process that leads a run computes them once and keeps them in the run's folder, where the others read them and a
later part of the run finds them: another release of METIS may find others.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Optional

import numpy as np

from ... import _native
from ...data import KnowledgeGraph
from ...errors import InputError
from ...files import replace_file

OWNERS_FILE = "partition.npy"


def why_not() -> Optional[str]:
    """Why METIS cannot be used here, in a sentence; None where it can."""
    try:
        _import_dgl()
    except InputError as error:
        return str(error)
    return None


def keep_owners(folder: Path, graph: KnowledgeGraph, ranks: int) -> None:
    """Compute the owners and write them to the run's folder, unless they are there. InputError as why_not."""
    if (folder / OWNERS_FILE).exists():
        return
    head, tail = (np.asarray(column, np.int64) for column in (graph.train.head, graph.train.tail))
    found = _by_metis(head, tail, graph.n_entities, ranks)
    degree = np.bincount(head, minlength=len(found)) + np.bincount(tail, minlength=len(found))
    owner = _balanced(found, degree, ranks)
    print(f"METIS: the head and the tail of {np.mean(owner[head] != owner[tail]):.1%} of the training triples have "
          "different owners", flush=True)
    with replace_file(folder / OWNERS_FILE) as file:
        np.save(file, owner.astype(np.int32), allow_pickle=False)


def read_owners(folder: Path, entities: int, ranks: int) -> _native.RowOwners:
    """The owners that are kept in the run's folder. InputError for a file that is damaged or of other ranks."""
    path = folder / OWNERS_FILE
    try:
        owner = np.load(path, allow_pickle=False)
        found, count = np.unique(owner, return_counts=True)
        if owner.shape != (entities,) or not (np.array_equal(found, np.arange(ranks)) and
                                              np.array_equal(count, _shares(entities, ranks))):
            raise ValueError(f"it does not divide {entities} entities over {ranks} ranks")
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{path} cannot be used: {error}; start a new run") from error
    return _native.RowOwners(np.argsort(owner, kind="stable"), ranks)


def _by_metis(head: np.ndarray, tail: np.ndarray, entities: int, ranks: int) -> np.ndarray:
    """The part of each entity, (entities,) int64."""
    dgl = _import_dgl()
    import torch

    # METIS corrupts memory where two edges join the same entities, and reads what was never written for loops.
    first, last = np.minimum(head, tail), np.maximum(head, tail)
    pairs = np.unique((first * entities + last)[first != last])
    ends = (torch.from_numpy(each) for each in (pairs // entities, pairs % entities))
    with contextlib.redirect_stdout(io.StringIO()):  # dgl says how long each of its steps took
        return dgl.metis_partition_assignment(dgl.graph(tuple(ends), num_nodes=entities), ranks).numpy()


def _balanced(owner: np.ndarray, degree: np.ndarray, ranks: int) -> np.ndarray:
    """The same, but each rank owns as many entities as the others, or one more: where a part is too large, the entities
    with the fewest triples go to parts with room."""
    share, count = _shares(len(owner), ranks), np.bincount(owner, minlength=ranks)
    order = np.lexsort((-degree, owner))
    place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    balanced = owner.copy()
    balanced[order[place >= np.repeat(share, count)]] = np.repeat(np.arange(ranks), np.maximum(share - count, 0))
    return balanced


def _shares(entities: int, ranks: int) -> np.ndarray:
    """Entities of each rank, as _native.RowOwners counts them."""
    return np.diff(entities * np.arange(ranks + 1) // ranks)


def _import_dgl():
    try:
        from ... import vanilla

        vanilla.install()  # dgl does not start by itself on a current Python
        import dgl
    except (ImportError, InputError) as error:
        raise InputError(
            f"--partition metis cannot be used here: {error}; or choose --partition hash"
        ) from error
    return dgl
