"""The k best rows for query vectors: shortlisted in float32 by blocks, decided by exact keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, Tuple

import numpy as np

from .. import _native
from .._native import Operation
from .model import take_rows
from .ranking import CandidateTable, tile_error

_KEY_SLACK = 2.0**-22  # rows whose keys are nearer to the k-th best, relative to it, are in each shortlist
_LARGEST_MARGIN = 1e37
_TIED_PAIRS = 1 << 22  # rows times queries that are looked at together where many scores may be equal


@dataclass(frozen=True, eq=False)
class Found:
    """Rows found for queries, parallel arrays: query and row ids int64, scores float32."""

    query: np.ndarray
    row: np.ndarray
    score: np.ndarray

    def best(self, k: int, group: np.ndarray) -> "Found":
        """The k best of each group of results, group after group; equal scores in order of query, then row.

        group: (n,) the group of each result.
        """
        order = np.lexsort((self.row, self.query, -self.score.astype(np.float64), group))
        group = group[order]
        starts = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
        position = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
        return self.of(order[position < k])

    def of(self, results: np.ndarray) -> "Found":
        """Some of the results, by an index or a mask."""
        return Found(self.query[results], self.row[results], self.score[results])

    @classmethod
    def joined(cls, parts: Iterable["Found"]) -> "Found":
        """The results of parts, one part after the other; at least one part."""
        return cls(*(np.concatenate(column) for column in zip(*((each.query, each.row, each.score) for each in parts))))


def best_of_all(parts: Iterable[Found], k: int) -> Found:
    """The k best results of all queries and parts together; no more than one part and k results are held."""
    best = Found(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    for part in parts:
        both = Found.joined([best, part])
        best = both.best(k, np.zeros(len(both.row), np.int64))
    return best


def best_rows(operation: Operation, vectors: np.ndarray, table: CandidateTable, k: int,
              scores: Callable[[np.ndarray], np.ndarray]) -> Found:
    """The k best rows of the table for each query, and perhaps a few more; exact scores. Of equal scores the first rows
    are among them, also where keys differ (faiss's shortlist decides by keys alone).

    Args:
        operation: how vectors and rows combine.
        vectors: (q, dim) float32.
        table: candidate rows; its `device` says where they are searched.
        k: how many; fewer are found if the table is smaller.
        scores: from exact float64 keys to float32 scores, monotone.

    Raises Diverged: a row, a vector or a score is NaN or infinite.
    """
    if table.shortlist is not None:
        return _scored(operation, vectors, table, *table.shortlist(vectors, k), scores)[0]
    found, keys = _scored(operation, vectors, table, *_shortlist(operation, vectors, table, k, None), scores)
    if not len(keys):
        return found
    tied, margin = _ties_below(found, keys, len(vectors), min(k, len(table.rows)), scores)
    parts = [found.of(~np.isin(found.query, tied))] if len(tied) else [found]
    together = max(1, _TIED_PAIRS // len(table.rows))
    for begin in range(0, len(tied), together):
        queries = tied[begin : begin + together]
        pairs = _shortlist(operation, vectors[queries], table, k, margin[begin : begin + together])
        part, _ = _scored(operation, vectors[queries], table, *pairs, scores)
        best = part.best(k, part.query)
        parts.append(Found(queries[best.query], best.row, best.score))
    return parts[0] if len(parts) == 1 else Found.joined(parts)


def _scored(operation, vectors, table, query, row, scores) -> Tuple[Found, np.ndarray]:
    """The pairs with their scores, and their keys."""
    rows, position = table.rows, row
    if table.device is not None:
        needed, position = np.unique(row, return_inverse=True)
        rows = take_rows(table.rows, needed)
    keys = _native.pair_keys(operation, vectors, rows, query, position)
    return Found(query, row, scores(keys)), keys


def _ties_below(found: Found, keys, queries: int, k: int, scores) -> Tuple[np.ndarray, np.ndarray]:
    """Queries of which rows beyond the shortlist may score as the k-th best does, and how far below its key.

    A score has fewer digits than a key: it is rounded, added to a margin, clamped, or put through a function that
    flattens.
    """
    order = np.lexsort((-keys, found.query))
    kth = keys[order[np.searchsorted(found.query[order], np.arange(queries)) + k - 1]]
    score, margin = scores(kth), _KEY_SLACK * np.abs(kth)
    ends = kth - margin  # rows beyond the shortlist have smaller keys
    tied = np.flatnonzero(scores(ends) == score)
    margin = np.maximum(margin[tied], np.finfo(np.float32).tiny)
    open_ = np.arange(len(tied))
    while len(open_):  # margins grow until the score falls
        margin[open_] *= 4
        margin[open_[margin[open_] > _LARGEST_MARGIN]] = np.inf  # it never does
        open_ = open_[np.isfinite(margin[open_])]
        open_ = open_[scores(kth[tied[open_]] - margin[open_]) == score[tied[open_]]]
    return tied, 1.001 * margin  # more than the error of a margin in float32


def _shortlist(operation, vectors, table: CandidateTable, count: int, margin) -> Tuple[np.ndarray, np.ndarray]:
    """Pairs (query, row) among which the `count` best of each query certainly are, and all rows whose keys are within a
    margin (q,) of them; without one, within twice _KEY_SLACK of the key."""
    absolute, relative = tile_error(operation, vectors, table)
    tile_vectors = 2 * vectors if operation == Operation.L2 else vectors
    relative_slack, more = 2 * relative + 2 * _KEY_SLACK, 0.0 if margin is None else margin
    if operation == Operation.L2:  # the tile's key lacks |a|^2, by which the slack must be measured
        more = more + 4 * _KEY_SLACK * np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    slack = np.nextafter((2 * absolute + more).astype(np.float32), np.float32(np.inf))
    if table.device is None:
        return _native.best_rows(operation, tile_vectors, table.rows, table.squares, count, slack, relative_slack)
    from .device_ranking import best_rows as on_device

    return on_device(operation, tile_vectors, table, count, slack, relative_slack)
