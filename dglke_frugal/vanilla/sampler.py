"""dgl.contrib.sampling.EdgeSampler as far as dglke uses it: batches with negatives, drawn by libdgl's C++ code."""
from __future__ import annotations

from typing import Iterator

import torch
from dgl import utils
from dgl._ffi.function import get_global_func
from dgl.base import EID, NID
from dgl.ndarray import empty

from .graph import ReadOnlyGraph

_create = get_global_func("sampling._CAPI_CreateUniformEdgeSampler")
_fetch = get_global_func("sampling._CAPI_FetchUniformEdgeSample")
_reset = get_global_func("sampling._CAPI_ResetUniformEdgeSample")
_heads = get_global_func("sampling._CAPI_GetEdgeSubgraphHead")
_tails = get_global_func("sampling._CAPI_GetEdgeSubgraphTail")
_existence = get_global_func("sampling._CAPI_GetNegEdgeExistence")


def _tensor(array) -> torch.Tensor:
    return utils.toindex(array).tousertensor()


class EdgeSubgraph(ReadOnlyGraph):
    """The edges of a batch, or its negative edges. `head_nid` and `tail_nid` are asked of the latter only."""

    def __init__(self, parent: ReadOnlyGraph, sgi):
        super().__init__(sgi.graph, parent=parent)
        self.sgi = sgi
        self.ndata[NID] = sgi.induced_nodes.tousertensor()
        self.edata[EID] = sgi.induced_edges.tousertensor()

    @property
    def head_nid(self) -> torch.Tensor:
        """(n,) int64, ids in this graph: the drawn negatives if heads are replaced, else the unique heads."""
        return _tensor(_heads(self.sgi))

    @property
    def tail_nid(self) -> torch.Tensor:
        """(n,) int64, ids in this graph: the drawn negatives if tails are replaced, else the unique tails."""
        return _tensor(_tails(self.sgi))


class EdgeSampler:
    """Iterating over it runs through the seed edges once, in a new order each time, without replacement.

    Yields pairs (batch, its negative edges) of EdgeSubgraph; the last batch may be smaller.

    Parameters
    ----------
    seed_edges : (n,) int64 tensor or array. It is shuffled in place, as dgl did: in dglke's evaluation the samplers of
        both sides share one array, and the order in which metrics are summed follows.
    shuffle : draw from a shuffled copy instead.
    negative_mode : "head", "tail", "chunk-head" or "chunk-tail": the side that is replaced, per edge or per chunk.
    num_workers : batches drawn in one C++ call, in parallel if OpenMP has threads.
    relations : (n_edges,) int64, needed to tell false negatives of a knowledge graph.
    return_false_neg : put (n_negatives,) int64 in the negative graph's `edata["false_neg"]`, 1 where the triple exists.
    """

    def __init__(self, g, batch_size, seed_edges, shuffle, num_workers, negative_mode, neg_sample_size, chunk_size,
                 exclude_positive, return_false_neg, relations=None):
        self._graph = g
        if shuffle:
            seed_edges = seed_edges[torch.randperm(len(seed_edges))]
        self._seeds = utils.toindex(seed_edges)
        relations = empty((0,), "int64") if relations is None else utils.toindex(relations).todgltensor()
        self._return_false_neg = return_false_neg
        replacement = restart_by_itself = False
        self._sampler = _create(
            g._graph, self._seeds.todgltensor(), batch_size, num_workers, replacement, restart_by_itself, negative_mode,
            neg_sample_size, exclude_positive, return_false_neg, relations, chunk_size)

    def __iter__(self) -> Iterator[tuple[EdgeSubgraph, EdgeSubgraph]]:
        # Not in the generator, whose body starts at the first `next`: dglke's batches follow the order of the resets.
        _reset(self._sampler)
        return self._batches()

    def _batches(self):
        while True:
            fetched = _fetch(self._sampler)
            half = len(fetched) // 2
            if half == 0:
                return
            # Reversed and popped, so that the memory of a batch is free when the batch is done with.
            pairs = [(fetched[i], fetched[half + i]) for i in reversed(range(half))]
            del fetched
            while pairs:
                positive, negative = pairs.pop()
                yield self._subgraphs(positive, negative)

    def _subgraphs(self, positive, negative):
        negatives = EdgeSubgraph(self._graph, negative)
        if self._return_false_neg:
            negatives.edata["false_neg"] = _tensor(_existence(negative))
        return EdgeSubgraph(self._graph, positive), negatives
