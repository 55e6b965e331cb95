"""The float32 counting of csrc/ranking/ranking.h and the shortlists of best_rows.h with PyTorch, on a GPU.

The table lies on the device, or in host memory and is brought over block by block. Products are cuBLAS's, distances
that no product gives are those of the training step's kernels. Keys are good to the error bound of ranking.py however
they are summed, and pairs within it are decided by exact keys, so no block size changes a rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, List, Tuple

import numpy as np
import torch

from .. import _native
from .._native import Operation
from .known_triples import Lists

_ROWS = 1 << 15  # of the table, compared together
_TILE = 1 << 24  # keys in work at a time
_PAIR_KINDS = {Operation.L1: _native.PairKind.ABSOLUTE, Operation.MODULUS: _native.PairKind.MODULUS}

Pairs = Tuple[np.ndarray, np.ndarray]


def squared_lengths(rows, device: torch.device) -> torch.Tensor:
    """|row|^2 (n,) float64 on the device of rows (n, dim) float32, numpy or a tensor there."""
    squares = torch.empty(len(rows), dtype=torch.float64, device=device)
    for first, block in _row_blocks(rows, device):
        squares[first : first + len(block)] = block.double().square().sum(dim=1)
    return squares


def count_better(operation: Operation, vectors: np.ndarray, table, excluded: Lists, positives: np.ndarray,
                 low: np.ndarray, high: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts per threshold the rows whose float32 key is above `high`.

    Args:
        vectors: (q, dim) float32 queries, for L2 doubled.
        table: a ranking.CandidateTable with a device.
        excluded: rows that never count, per query.
        positives: (q + 1,) first threshold of each query.
        low, high: (p,) float32 thresholds.

    Returns:
        counts (p,) int64, and the pairs (threshold, row) whose key is in [low, high].
    """
    with _comparing_on(table.device):
        low, high = (torch.from_numpy(bounds).to(table.device)[:, None] for bounds in (low, high))
        asked_by = _upload(np.repeat(np.arange(len(vectors)), np.diff(positives)), table.device)
        out_query = _upload(np.repeat(np.arange(len(vectors)), np.diff(excluded.pointers)), table.device)
        out_row = _upload(excluded.items, table.device)
        counts = torch.zeros(len(low), dtype=torch.int64, device=table.device)
        pairs = []
        for begin, end, first, keys in _tiles(operation, vectors, table):
            out = slice(*excluded.pointers[[begin, end]])
            _leave_out(keys, out_query[out] - begin, out_row[out] - first, len(table.rows))
            for at in range(positives[begin], positives[end], end - begin):  # many triples may ask one query
                asked = slice(at, min(at + end - begin, positives[end]))
                mine = keys[asked_by[asked] - begin]
                above = mine > high[asked]
                counts[asked] += above.sum(dim=1)
                threshold, row = ((mine >= low[asked]) & ~above).nonzero(as_tuple=True)
                pairs.append((threshold + at, row + first))
        return (counts.cpu().numpy(), *_download(pairs))


def best_rows(operation: Operation, vectors: np.ndarray, table, count: int, slack: np.ndarray,
              relative_slack: float) -> Pairs:
    """Pairs (query, row) of csrc/ranking/best_rows.h: all rows within the slack of the count-th best."""
    slack = torch.from_numpy(slack).to(table.device)
    with _comparing_on(table.device):
        shape = (len(vectors), min(count, len(table.rows)))
        return _shortlist(lambda: _tiles(operation, vectors, table), shape,
                          lambda kth: kth - slack - relative_slack * kth.abs())


def most_overlapping(vectors: np.ndarray, rows, count: int, device: torch.device) -> Pairs:
    """Pairs (query, row), in float64: all rows within rounding of the count-th largest a.b / (|a|^2 + |b|^2 - a.b),
    which is 0 for two rows of zeros. All numbers are finite."""
    there = torch.from_numpy(np.asarray(vectors, np.float64)).to(device)

    def tiles():
        for first, block in _row_blocks(rows, device):
            block = block.double()
            step = max(1, _TILE // len(block))
            for begin in range(0, len(there), step):
                mine = there[begin : begin + step]
                dots = mine @ block.T
                whole = mine.square().sum(1)[:, None] + block.square().sum(1) - dots
                keys = dots / torch.where(whole == 0, 1.0, whole)
                yield begin, begin + len(mine), first, keys

    with _comparing_on(device):
        return _shortlist(tiles, (len(there), min(count, len(rows))), lambda kth: kth - 1e-9 * kth.abs() - 1e-12)


def _shortlist(tiles, shape, threshold) -> Pairs:
    """Pairs with a key of at least threshold(kth best) of shape (queries, k).

    The keys are made twice, to find the k-th best and to find what is near it, so that none need be kept.
    """
    best = None
    for begin, end, _, keys in tiles():
        if best is None:
            best = torch.full(shape, -torch.inf, dtype=keys.dtype, device=keys.device)
        best[begin:end] = torch.topk(torch.cat([best[begin:end], keys], dim=1), shape[1], dim=1).values
    if best is None:
        return _download([])
    least = threshold(best[:, -1])[:, None]
    pairs = []
    for begin, end, first, keys in tiles():
        query, row = (keys >= least[begin:end]).nonzero(as_tuple=True)
        pairs.append((query + begin, row + first))
    return _download(pairs)


def _row_blocks(rows, device) -> Iterator[Tuple[int, torch.Tensor]]:
    for first in range(0, len(rows), _ROWS):
        block = rows[first : first + _ROWS]
        if isinstance(block, np.ndarray):
            block = torch.from_numpy(np.array(block, np.float32)).to(device)
        yield first, block.detach()


def _tiles(operation, vectors, table) -> Iterator[Tuple[int, int, int, torch.Tensor]]:
    """(begin, end, first, keys): float32 keys of the queries begin .. end - 1 with the rows from `first` on."""
    vectors = torch.from_numpy(np.ascontiguousarray(vectors)).to(table.device)
    for first, rows in _row_blocks(table.rows, table.device):
        step = max(1, _TILE // len(rows))
        for begin in range(0, len(vectors), step):
            block = vectors[begin : begin + step]
            if operation in _PAIR_KINDS:
                keys = _distances(_PAIR_KINDS[operation], block, rows.contiguous()).neg_()
            else:
                keys = block @ rows.T
            if operation == Operation.L2:  # apart from the product, whose order of sums is unknown
                keys += table.squares[first : first + len(rows)]
            yield begin, begin + len(block), first, keys


def _distances(kind, vectors, rows) -> torch.Tensor:
    out = torch.empty(1, len(vectors), len(rows), device=rows.device)
    stream = torch.cuda.current_stream(rows.device).cuda_stream if rows.is_cuda else 0
    _native.pair_distances(kind, vectors[None], rows[None], out, stream)
    return out[0]


def _leave_out(keys, query, row, table_rows) -> None:
    """`row` counts from the first row of `keys`, which may be a part of the table."""
    if keys.shape[1] < table_rows:
        here = (row >= 0) & (row < keys.shape[1])
        query, row = query[here], row[here]
    keys[query, row] = -torch.inf


def _upload(array, device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def _download(pairs: List[Tuple[torch.Tensor, torch.Tensor]]) -> Pairs:
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return tuple(torch.cat(column).cpu().numpy() for column in zip(*pairs))


@contextmanager
def _comparing_on(device):
    """Kernels go to the current device; TF32 rounds products beyond the error bound."""
    tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.cuda.device(device if device.type == "cuda" else -1):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
