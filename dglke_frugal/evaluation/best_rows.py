"""The k best rows for query vectors: shortlisted in float32 by blocks, decided by exact keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Callable, Tuple

import numpy as np

from .. import _native
from .._native import Operation
from .model import take_rows
from .ranking import CandidateTable, tile_error


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
        order = order[position < k]
        return Found(self.query[order], self.row[order], self.score[order])


def best_rows(
    operation: Operation, vectors: np.ndarray, table: CandidateTable, k: int, scores: Callable[[np.ndarray], np.ndarray]
) -> Found:
    """The k best rows of the table for each query, and perhaps a few more; exact scores.

    Args:
        operation: how vectors and rows combine.
        vectors: (q, dim) float32.
        table: candidate rows; its `device` says where they are searched.
        k: how many; fewer are found if the table is smaller.
        scores: from exact float64 keys to float32 scores, monotone.
    """
    query, row = (table.shortlist or partial(_shortlist, operation, table=table))(vectors, count=k)
    rows, position = table.rows, row
    if table.device is not None:
        needed, position = np.unique(row, return_inverse=True)
        rows = take_rows(table.rows, needed)
    return Found(query, row, scores(_native.pair_keys(operation, vectors, rows, query, position)))


def _shortlist(operation, vectors, table: CandidateTable, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """Pairs (query, row) among which the `count` best of each query certainly are."""
    absolute, relative = tile_error(operation, vectors, table)
    slack = np.nextafter((2 * absolute).astype(np.float32), np.float32(np.inf))
    # Rounding to float32 scores makes near keys equal; among equals the first row counts, so keep those too.
    relative_slack = 2 * relative + 2.0**-21
    tile_vectors = 2 * vectors if operation == Operation.L2 else vectors
    if operation == Operation.L2:  # the tile's key lacks |a|^2, by which the score's rounding must be measured
        slack = slack + np.float32(2.0**-20) * np.einsum("ij,ij->i", vectors, vectors)
    if table.device is None:
        return _native.best_rows(operation, tile_vectors, table.rows, table.squares, count, slack, relative_slack)
    from .device_ranking import best_rows as on_device

    return on_device(operation, tile_vectors, table, count, slack, relative_slack)
