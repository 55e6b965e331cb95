"""Which rank trains which edge, and what follows from it: the hot entities of each rank."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np

from ... import _native
from ...data import KnowledgeGraph
from ...errors import InputError
from ...files import replace_file
from ...options import OWNED_PARTITIONS, DeviceConfig
from ...store.device.shared_segment import SharedSegment
from .relation_partition import partition_by_relation

PARTITION_FILE = "partition.npy"
HOT_SHARE = 10  # a head with more than the 10 N-th part of the edges of one of N ranks is hot


@dataclass(frozen=True)
class EdgePartition:
    """The training edges, divided over ranks.

    parts: of each rank, indices of its edges, ascending; None: the sampler deals them out at random by itself.
    """

    ranks: int
    parts: Optional[List[np.ndarray]]

    def hot_entities(self, graph: KnowledgeGraph) -> List[np.ndarray]:
        """Of each rank, entity ids by degree in its part, highest first. Random parts have the degrees of the whole
        graph."""
        if self.parts is None:
            return [_by_degree(graph.train.head, graph.train.tail, graph.n_entities)] * self.ranks
        return [_by_degree(graph.train.head[part], graph.train.tail[part], graph.n_entities) for part in self.parts]

    def owner(self, edges: int) -> np.ndarray:
        """The rank of each edge, (edges,) int32; of a partition that is not random."""
        owner = np.empty(edges, np.int32)
        for rank, part in enumerate(self.parts):
            owner[part] = rank
        return owner


def row_owners(how: str, entities: int, ranks: int) -> _native.RowOwners:
    """Which rank owns which entity. how: one of config.OWNED_PARTITIONS. InputError if a rank would own none."""
    try:
        return _native.RowOwners(entities, ranks, how == "hash")
    except ValueError as error:
        raise InputError(f"{entities} entities cannot be divided over {ranks} ranks: {error}; use fewer") from error


def negative_owners(device: DeviceConfig, entities: int) -> Optional[_native.RowOwners]:
    """Who owns the entities from which each rank draws its negatives; None: all draw from all."""
    local = device.ranks > 1 and device.negatives == "local"
    return row_owners(device.edge_partition, entities, device.ranks) if local else None


def _by_degree(head: np.ndarray, tail: np.ndarray, n_entities: int) -> np.ndarray:
    degree = np.bincount(head, minlength=n_entities) + np.bincount(tail, minlength=n_entities)
    return np.argsort(-degree, kind="stable")


def partition_edges(how: str, graph: KnowledgeGraph, ranks: int) -> EdgePartition:
    """Divide the training edges.

    how: "random"; "relation", as DGL-KE's --rel_part; "hash" or "range", by which ranks own entities, and an edge
        belongs to the rank of its head, but those of hot heads are dealt out to all; or "metis", which keeps
        neighbouring entities together: METIS divides the entities, and an edge belongs to the rank of its head. Needs
        dgl.
    Raises InputError if a rank would have no edge, or dgl is missing.
    """
    train = graph.train
    if how == "random":
        if len(train) < ranks:
            raise InputError(
                f"{len(train)} training triples cannot be divided over {ranks} ranks; use fewer with --num_proc"
            )
        return EdgePartition(ranks, None)
    if how == "relation":
        partition = partition_by_relation(train.relation, graph.n_relations, ranks)
        return EdgePartition(ranks, [partition.part(rank) for rank in range(ranks)])
    if how in OWNED_PARTITIONS:
        return _by_head(row_owners(how, graph.n_entities, ranks), train.head, ranks)
    partition = _by_owner(_metis(train.head, train.tail, graph.n_entities, ranks)[train.head], ranks)
    empty = [rank for rank, part in enumerate(partition.parts) if not len(part)]
    if empty:
        raise InputError(
            f"METIS leaves rank {empty[0]} of {ranks} without an edge; use fewer ranks or --partition random"
        )
    return partition


def partition_of_run(folder: Path, how: str, graph: KnowledgeGraph, ranks: int) -> EdgePartition:
    """The partition of the run in `folder`. That of METIS, which comes out differently each time, is kept there.

    Raises InputError as partition_edges, and for a file that is damaged.
    """
    path = folder / PARTITION_FILE
    if how != "metis" or not path.exists():
        partition = partition_edges(how, graph, ranks)
        if how == "metis":
            with replace_file(path) as file:
                np.save(file, partition.owner(len(graph.train)), allow_pickle=False)
        return partition
    try:
        owner = np.load(path, allow_pickle=False)
        if owner.shape != (len(graph.train),) or set(np.unique(owner)) != set(range(ranks)):
            raise ValueError(f"it does not divide {len(graph.train)} triples over {ranks} ranks")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be used: {error}; start a new run") from error
    return _by_owner(owner, ranks)


def _by_owner(owner: np.ndarray, ranks: int) -> EdgePartition:
    return EdgePartition(ranks, [np.flatnonzero(owner == rank) for rank in range(ranks)])


def _by_head(owners: _native.RowOwners, head: np.ndarray, ranks: int) -> EdgePartition:
    """Each edge to the owner of its head; those of a hot head in turn, so that no rank has all of them."""
    owner = owners.owner(np.ascontiguousarray(head, np.int64))
    degree = np.bincount(head, minlength=owners.rows)
    is_hot = degree * HOT_SHARE * ranks * ranks > len(head)
    dealt = np.flatnonzero(is_hot[head])
    owner[dealt] = np.arange(len(dealt)) % ranks
    partition = _by_owner(owner, ranks)
    empty = [rank for rank, part in enumerate(partition.parts) if not len(part)]
    if empty:
        raise InputError(f"rank {empty[0]} of {ranks} owns no head of a training triple; use fewer ranks or "
                         "--partition random")
    return partition


def _metis(head: np.ndarray, tail: np.ndarray, n_entities: int, ranks: int) -> np.ndarray:
    try:
        from ... import vanilla

        vanilla.install()  # dgl does not start by itself on a current Python
        import dgl
        import torch
    except (ImportError, InputError) as error:
        raise InputError(
            f"--partition metis cannot be used here: {error}; or choose --partition random or relation"
        ) from error
    ends = (torch.from_numpy(np.array(column, np.int64)) for column in (head, tail))
    with contextlib.redirect_stdout(io.StringIO()):  # dgl says how long each of its steps took
        return dgl.metis_partition_assignment(dgl.graph(tuple(ends), num_nodes=n_entities), ranks).numpy()


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
