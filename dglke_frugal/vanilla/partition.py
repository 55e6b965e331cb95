"""dgl.transform.metis_partition of dgl 0.4, for dglke_partition.

dgl still has METIS, but its parts have changed: today an edge between two parts is in both, and dglke would write it
twice.
"""
from __future__ import annotations

import dgl
import torch
from dgl import graph_index
from dgl.base import EID, NID

from ..errors import InputError
from .graph import ReadOnlyGraph


def metis_partition(g: ReadOnlyGraph, k: int, extra_cached_hops: int) -> dict[int, ReadOnlyGraph]:
    """Split the nodes into `k` parts of about equal size with few edges between them.

    A part has the edges into its own nodes, so each edge is in one part, and their sources. In its `ndata`: "part_id",
    the part that owns a node, and "inner_node", whether it is this one; in `edata`: "inner_edge", whether it owns both
    ends.
    """
    if extra_cached_hops != 1:
        raise NotImplementedError(f"{extra_cached_hops} hops around a part; dglke asks for 1")
    if k < 1:
        raise InputError(f"a graph cannot be split into {k} parts: give --num-parts 1 or more")
    if k == 1:
        owner = torch.zeros(g.number_of_nodes(), dtype=torch.int64)  # METIS divides by zero
    else:
        owner = dgl.metis_partition_assignment(dgl.graph(g.all_edges(), num_nodes=g.number_of_nodes()), k)
    return {number: _part(g, owner, number) for number in range(k)}


def _part(g: ReadOnlyGraph, owner: torch.Tensor, number: int) -> ReadOnlyGraph:
    source, destination = g.all_edges()
    edges = torch.nonzero(owner[destination] == number).flatten()
    source, destination = source[edges], destination[edges]
    own = torch.nonzero(owner == number).flatten()
    nodes = torch.cat([own, source]).unique(sorted=True)
    local = torch.searchsorted(nodes, source), torch.searchsorted(nodes, destination)
    part = ReadOnlyGraph(graph_index.from_coo(len(nodes), *local, True), parent=g)
    part.ndata.update({NID: nodes, "part_id": owner[nodes], "inner_node": owner[nodes] == number})
    part.edata.update({EID: edges, "inner_edge": owner[source] == number})
    return part
