"""The counting of csrc/evaluation/ranking.h with PyTorch, for tables on a GPU."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np
import torch

from .._native import Operation
from .known_triples import Lists

_TILE_BYTES = 1 << 28  # keys computed together


def count_better(
    operation: Operation,
    vectors: np.ndarray,
    table: torch.Tensor,
    bias,
    excluded: Lists,
    positives: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts per threshold the rows whose float32 key is above `high`.

    Args:
        vectors: (q, dim) float32 queries, for L2 doubled.
        table: (n, dim) float32 on any device; the work is done there.
        bias: (n,) float32 numpy added to the keys, or None.
        excluded: rows that never count, per query.
        positives: (q + 1,) first threshold of each query.
        low, high: (p,) float32 thresholds.

    Returns:
        counts (p,) int64, and the pairs (threshold, row) whose key is in [low, high].
    """
    table = table.detach()
    device = table.device
    counts, pair_thresholds, pair_rows = [], [], []
    for begin, end, keys in _tiles(operation, vectors, table, bias):
        pointers = excluded.pointers[begin : end + 1]
        of_query = np.repeat(np.arange(end - begin), np.diff(pointers))
        rows = torch.from_numpy(excluded.items[pointers[0] : pointers[-1]]).to(device)
        keys[torch.from_numpy(of_query).to(device), rows] = -torch.inf
        first, last = int(positives[begin]), int(positives[end])
        for at in range(first, last, end - begin):  # a query asked by many triples has many thresholds
            upto = min(at + end - begin, last)
            query = np.searchsorted(positives, np.arange(at, upto), side="right") - 1 - begin
            mine = keys[torch.from_numpy(query).to(device)]
            above = mine > torch.from_numpy(high[at:upto]).to(device)[:, None]
            counts.append(above.sum(dim=1).cpu().numpy())
            between = (mine >= torch.from_numpy(low[at:upto]).to(device)[:, None]) & ~above
            threshold, row = between.nonzero(as_tuple=True)
            pair_thresholds.append(threshold.cpu().numpy() + at)
            pair_rows.append(row.cpu().numpy())
    if not counts:
        return tuple(np.zeros(0, np.int64) for _ in range(3))
    return np.concatenate(counts), np.concatenate(pair_thresholds), np.concatenate(pair_rows)


def best_rows(
    operation: Operation,
    vectors: np.ndarray,
    table: torch.Tensor,
    bias,
    count: int,
    slack: np.ndarray,
    relative_slack: float,
) -> Tuple[np.ndarray, np.ndarray]:
    """Pairs (query, row) of csrc/evaluation/best_rows.h: all rows within the slack of the count-th best."""
    queries, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for begin, end, keys in _tiles(operation, vectors, table.detach(), bias):
        kth = torch.topk(keys, min(count, keys.shape[1]), dim=1).values[:, -1]
        threshold = kth - torch.from_numpy(slack[begin:end]).to(keys.device) - relative_slack * kth.abs()
        query, row = (keys >= threshold[:, None]).nonzero(as_tuple=True)
        queries.append(query.cpu().numpy() + begin)
        rows.append(row.cpu().numpy())
    return np.concatenate(queries), np.concatenate(rows)


def _tiles(operation, vectors, table, bias) -> Iterator[Tuple[int, int, torch.Tensor]]:
    """Float32 keys of blocks of queries with the whole table, each with its range of queries."""
    device = table.device
    bias = None if bias is None else torch.from_numpy(bias).to(device)
    step = max(1, _TILE_BYTES // 4 // max(1, len(table)))
    allow_tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False  # its rounding is outside the error bound
    try:
        for begin in range(0, len(vectors), step):
            end = min(begin + step, len(vectors))
            keys = _keys(operation, torch.from_numpy(vectors[begin:end]).to(device), table)
            if bias is not None:
                keys += bias
            yield begin, end, keys
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allow_tf32


def _keys(operation, vectors, table):
    if operation in (Operation.DOT, Operation.L2):
        return vectors @ table.T
    if operation == Operation.L1:
        return -torch.cdist(vectors, table, p=1)
    half = table.shape[1] // 2
    keys = torch.empty(len(vectors), len(table), device=table.device)
    for i, vector in enumerate(vectors):
        difference = table - vector
        keys[i] = -torch.hypot(difference[:, :half], difference[:, half:]).sum(dim=1)
    return keys
