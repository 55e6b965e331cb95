"""Which rank trains which edge, and what follows from it: the hot entities of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np

from ... import _native
from ...data import KnowledgeGraph
from ...errors import InputError
from ...options import OWNED_PARTITIONS, DeviceConfig
from ...store.device.shared_segment import SharedSegment
from ..tables.tables import hot_entities
from . import metis_owners
from .relation_partition import edges_of_rank, partition_by_relation

HOT_SHARE = 10  # a head with more than the 10 N-th part of the edges of one of N ranks is hot
BLOCK = 1 << 24  # edges whose 64-bit ids are in memory at a time


@dataclass(frozen=True)
class EdgePartition:
    """The training edges, divided over ranks.

    parts: of each rank, indices of its edges, ascending; None: the sampler deals them out at random by itself.
    owners: of the entities, where edges go to the owners of their heads.
    """

    ranks: int
    parts: Optional[List[np.ndarray]]
    owners: Optional[_native.RowOwners] = None

    def hot_entities(self, graph: KnowledgeGraph) -> List[np.ndarray]:
        """Of each rank, entity ids by degree in its part, highest first. Random parts have the degrees of the whole
        graph."""
        if self.parts is None:
            return [hot_entities(graph)] * self.ranks
        return [hot_entities(graph, part) for part in self.parts]


def row_owners(how: str, entities: int, ranks: int, folder: Optional[Path] = None) -> _native.RowOwners:
    """Which rank owns which entity. how: one of options.OWNED_PARTITIONS. folder: of the run, where METIS's are kept.
    InputError if a rank would own none."""
    if how == "metis":
        return metis_owners.read_owners(folder, entities, ranks)
    try:
        return _native.RowOwners(entities, ranks, how == "hash")
    except ValueError as error:
        raise InputError(f"{entities} entities cannot be divided over {ranks} ranks: {error}; use fewer") from error


def negative_owners(device: DeviceConfig, entities: int, folder: Path) -> Optional[_native.RowOwners]:
    """Who owns the entities from which each rank draws its negatives; None: all draw from all."""
    local = device.ranks > 1 and device.negatives == "local"
    return row_owners(device.edge_partition, entities, device.ranks, folder) if local else None


def partition_edges(how: str, graph: KnowledgeGraph, ranks: int, folder: Optional[Path] = None) -> EdgePartition:
    """Divide the training edges.

    how: "random"; "relation", as DGL-KE's --rel_part; or "hash", "range" or "metis", by which ranks own entities, and
        an edge belongs to the rank of its head, but those of hot heads are dealt out to all.
    folder: of the run, where METIS's owners are kept.
    Raises InputError if a rank would have no edge.
    """
    train = graph.train
    if how == "random":
        if len(train) < ranks:
            raise InputError(
                f"{len(train)} training triples cannot be divided over {ranks} ranks; use fewer with --num_proc")
        return EdgePartition(ranks, None)
    if how == "relation":
        rank_of_edge = partition_by_relation(train.relation, graph.n_relations, ranks)
        return EdgePartition(ranks, [edges_of_rank(rank_of_edge, rank) for rank in range(ranks)])
    return _by_head(row_owners(how, graph.n_entities, ranks, folder), train.head, ranks)


def partition_of_run(folder: Path, how: str, graph: KnowledgeGraph, ranks: int) -> EdgePartition:
    """As partition_edges, in the process that leads the run in `folder`."""
    if how == "metis":
        metis_owners.keep_owners(folder, graph, ranks)
    return partition_edges(how, graph, ranks, folder)


def _by_head(owners: _native.RowOwners, head: np.ndarray, ranks: int) -> EdgePartition:
    """Each edge to the owner of its head; those of a hot head in turn, so that no rank has all of them."""
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, len(head), BLOCK)]
    owner, degree = np.empty(len(head), np.uint16), np.zeros(owners.rows, np.int64)
    for block in blocks:
        ids = np.ascontiguousarray(head[block], np.int64)
        owner[block] = owners.owner(ids)
        degree += np.bincount(ids, minlength=owners.rows)
    is_hot = degree * HOT_SHARE * ranks * ranks > len(head)
    dealt = 0
    for block in blocks:
        hot = np.flatnonzero(is_hot[head[block]])
        owner[block][hot] = (dealt + np.arange(len(hot))) % ranks
        dealt += len(hot)
    parts = [edges_of_rank(owner, rank) for rank in range(ranks)]
    empty = [rank for rank, part in enumerate(parts) if not len(part)]
    if empty:
        raise InputError(f"rank {empty[0]} of {ranks} owns no head of a training triple; use fewer ranks or another "
                         "--partition")
    return EdgePartition(ranks, parts, owners)


class SharedArray(SharedSegment):
    """An array that other processes map by its address while this one lives."""

    def __init__(self, array: np.ndarray):
        array = np.ascontiguousarray(array)
        super().__init__(array.nbytes)
        self.array[:] = array.reshape(-1).view(np.uint8)
        self.address = {"path": self.path, "dtype": array.dtype.str, "shape": list(array.shape)}

    @staticmethod
    def attach(address: Dict) -> np.ndarray:
        """The array at an address, read-only."""
        return np.memmap(address["path"], address["dtype"], "r", shape=tuple(address["shape"]))
