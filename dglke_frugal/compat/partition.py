"""dgl.transform.metis_partition as dglke_partition calls it, by today's function of dgl."""
from __future__ import annotations

import dgl
from dgl import graph_index
from dgl.base import EID, NID
from dgl.partition import metis_partition as partition_with_metis

from .graph import ReadOnlyGraph


def metis_partition(g: ReadOnlyGraph, k: int, extra_cached_hops: int) -> dict[int, ReadOnlyGraph]:
    """Split the nodes into `k` parts of about equal size with few edges between them.

    Returns the part of each number, with the edges into its nodes and the nodes up to `extra_cached_hops` away. In
    `ndata`: "inner_node" 1 for its own nodes, "part_id" the part a node belongs to; in `edata`: "inner_edge" likewise.
    """
    whole = dgl.graph(g.all_edges(), num_nodes=g.number_of_nodes())
    parts = partition_with_metis(whole, k, extra_cached_hops)
    return {number: _part(g, part) for number, part in parts.items()}


def _part(parent: ReadOnlyGraph, part: dgl.DGLGraph) -> ReadOnlyGraph:
    source, destination = part.edges(order="eid")
    graph = ReadOnlyGraph(graph_index.from_coo(part.num_nodes(), source, destination, True), parent=parent)
    for name in NID, "inner_node", "part_id":
        graph.ndata[name] = part.ndata[name]
    for name in EID, "inner_edge":
        graph.edata[name] = part.edata[name]
    return graph
