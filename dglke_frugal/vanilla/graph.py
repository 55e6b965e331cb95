"""The read-only graph of dgl before 1.0, as far as dglke uses it, over the C++ graph that libdgl still has."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Callable, Mapping

import torch
from dgl import graph_index
from dgl.base import EID, NID


class ReadOnlyGraph:
    """A directed multigraph with features on nodes and edges.

    Parameters
    ----------
    graph_data : scipy sparse matrix (n_nodes, n_nodes), whose stored entries are the edges in order, or a GraphIndex.
    sort_csr : sort the adjacency, which makes looking for an edge between two nodes fast.
    parent : the graph of which this one is a part; then `ndata[NID]`, `edata[EID]` hold the ids there.
    readonly, multigraph : accepted as dgl did; every graph is both.

    `ndata` and `edata` map names to tensors with one row per node or edge, on any device.
    """

    def __init__(self, graph_data, readonly=True, multigraph=True, sort_csr=False, parent=None):
        if isinstance(graph_data, graph_index.GraphIndex):
            self._graph = graph_data
        else:
            coo = graph_data.tocoo()
            self._graph = graph_index.from_coo(max(coo.shape), coo.row, coo.col, True)
        if sort_csr:
            self._graph.sort_csr()
        self._parent = parent
        self._endpoints = None
        self.ndata = {}
        self.edata = {}

    def number_of_nodes(self) -> int:
        """As in dgl."""
        return self._graph.num_nodes()

    def number_of_edges(self) -> int:
        """As in dgl."""
        return self._graph.num_edges()

    @property
    def parent_nid(self) -> torch.Tensor:
        """(n_nodes,) int64: ids in the parent graph."""
        return self.ndata[NID]

    @property
    def parent_eid(self) -> torch.Tensor:
        """(n_edges,) int64: ids in the parent graph."""
        return self.edata[EID]

    def all_edges(self, form="uv", order="eid") -> tuple[torch.Tensor, torch.Tensor]:
        """Sources and destinations, (n_edges,) int64 each, on the CPU, by edge id."""
        if (form, order) != ("uv", "eid"):
            raise NotImplementedError(f"edges as {form!r} by {order!r}")
        if self._endpoints is None:
            source, destination, _ = self._graph.edges("eid")
            self._endpoints = source.tousertensor(), destination.tousertensor()
        return self._endpoints

    def apply_edges(self, func: Callable) -> None:
        """Store in `edata` what `func` returns, given an object with `src`, `dst` (rows per edge) and `data`."""
        source, destination = self.all_edges()
        edges = SimpleNamespace(src=_Rows(self.ndata, source), dst=_Rows(self.ndata, destination), data=self.edata)
        self.edata.update(func(edges))

    def copy_from_parent(self) -> None:
        """Take over the features of the parent; a side (nodes, edges) on which it has any loses its own."""
        for own, parents, ids in (self.ndata, self._parent.ndata, NID), (self.edata, self._parent.edata, EID):
            if parents:
                rows = own[ids]
                own.clear()
                own.update({name: feature[rows] for name, feature in parents.items()})
                own[ids] = rows


class _Rows:
    """Features by name, gathered when they are asked for, on the device where they are."""

    def __init__(self, features: Mapping[str, torch.Tensor], rows: torch.Tensor):
        self._features, self._rows = features, rows

    def __getitem__(self, name: str) -> torch.Tensor:
        feature = self._features[name]
        return feature.index_select(0, self._rows.to(feature.device))
