"""Owners of entities by METIS, which keeps neighbouring entities together.

The process that leads a run computes them once and keeps them in the run's folder, where the others read them and a
later part of the run finds them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from ... import _native
from ...data import KnowledgeGraph
from ...errors import InputError
from ...extras import install_command
from ...files import replace_file
from ...npy_files import read_npy
from ...store.device.shared_segment import SharedSegment

OWNERS_FILE = "partition.npy"


# Of a process of its own, since METIS holds Python's lock for as long as it computes, and other machines would miss
# this one. Arguments: the shared memory, entities, ranks.
_PART = """
import sys
sys.path[:] = {path!r}
import numpy, pymetis
numbers, entities = numpy.memmap(sys.argv[1], "int64", "r+"), int(sys.argv[2])
neighbours, weights = numbers[entities + 1:].reshape(2, -1)
graph = pymetis.CSRAdjacency(numbers[:entities + 1], neighbours)
numbers[:entities] = pymetis.part_graph(int(sys.argv[3]), graph, eweights=weights).vertex_part
"""


def check_metis() -> None:
    """Raise InputError if METIS cannot be used here."""
    try:
        import pymetis  # noqa: F401
    except ImportError:
        raise InputError(f"--partition metis needs pymetis, which is not installed: {install_command('metis')}; or "
                         "choose --partition hash") from None


def keep_owners(folder: Path, graph: KnowledgeGraph, ranks: int) -> None:
    """Compute the owners and write them to the run's folder, unless they are there. InputError as check_metis, and
    where a rank would own none."""
    if (folder / OWNERS_FILE).exists():
        return
    if graph.n_entities < ranks:
        raise InputError(f"{graph.n_entities} entities cannot be divided over {ranks} ranks; use fewer")
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
        owner = read_npy(path, None)
        found, count = np.unique(owner, return_counts=True)
        if owner.shape != (entities,) or not (np.array_equal(found, np.arange(ranks)) and
                                              np.array_equal(count, _shares(entities, ranks))):
            raise ValueError(f"it does not divide {entities} entities over {ranks} ranks")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be used: {error}; start a new run") from error
    return _native.RowOwners(np.argsort(owner, kind="stable"), ranks)


def _by_metis(head: np.ndarray, tail: np.ndarray, entities: int, ranks: int) -> np.ndarray:
    """The part of each entity, (entities,) int64. An edge weighs as much as there are triples between its ends."""
    check_metis()
    apart = head != tail  # METIS takes no loops, and each edge once in both directions
    pairs, weights = np.unique(np.concatenate([(head * entities + tail)[apart], (tail * entities + head)[apart]]),
                               return_counts=True)
    if not len(pairs):
        return np.zeros(entities, np.int64)
    degree = np.bincount(pairs // entities, minlength=entities)
    graph = np.concatenate([[0], np.cumsum(degree), pairs % entities, weights])
    memory = SharedSegment(graph.nbytes)
    memory.array.view(np.int64)[:] = graph
    done = subprocess.run([sys.executable, "-c", _PART.format(path=sys.path), memory.path, str(entities), str(ranks)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr.strip() or "no message").splitlines()[-1]
        raise InputError(f"METIS has failed with exit code {done.returncode} ({message}); choose --partition hash")
    return memory.array.view(np.int64)[:entities].copy()


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
