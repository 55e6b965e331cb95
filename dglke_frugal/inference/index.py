"""How the best rows for a query are searched: among all, exactly, or with faiss, which looks where they likely are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Tuple

import numpy as np

from .._native import Operation
from ..divergence import check_rows
from ..errors import InputError
from ..evaluation.device import place
from ..evaluation.ranking import CandidateTable
from ..extras import install_command

if TYPE_CHECKING:
    import torch

INDEXES = ("exact", "faiss")
_ADDED_ROWS = 1 << 16  # together
_ROWS_PER_CELL = 39  # that faiss wants, to place a cell's center
_PROBED_SHARE = 8  # one in so many cells is looked into


def make_table(rows, operation: Operation, device: Optional[torch.device], index: str) -> CandidateTable:
    """Rows (n, dim) float32 ready to be searched, on the device if one is given.

    Raises InputError: an unknown index, or one that faiss does not have here.
    """
    if index not in INDEXES:
        raise InputError(f"unknown index {index}; choose one of {', '.join(INDEXES)}")
    if index == "exact":
        if device is not None and isinstance(rows, np.ndarray):
            rows = place(rows, device)
        return CandidateTable.of(rows, operation, device)
    if device is not None:
        raise InputError("--index faiss searches on the CPU; leave out --gpu or --index")
    if operation not in (Operation.DOT, Operation.L2):
        refuse_faiss(index, "l1 and RotatE's distances")
    largest = check_rows(rows, "the candidates' embeddings")
    return CandidateTable(rows, None, 0.0, largest, shortlist=CellIndex(rows, operation).search)


def refuse_faiss(index: str, what: str) -> None:
    """InputError if faiss is asked for where it has no index."""
    if index == "faiss":
        raise InputError(f"faiss has no index for {what}; leave --index out")


class CellIndex:
    """faiss's IVFFlat: rows lie in cells around k-means centers, and a query looks into the nearest cells.

    Small tables are one cell. Scores and their order are exact afterwards; rows in other cells are not found.
    """

    def __init__(self, rows: np.ndarray, operation: Operation):
        """Raises InputError if faiss is not installed."""
        try:
            import faiss
        except ImportError:
            raise InputError(
                f"--index faiss needs faiss, which is not installed: {install_command('faiss')}, or leave it out"
            ) from None
        metric = faiss.METRIC_L2 if operation == Operation.L2 else faiss.METRIC_INNER_PRODUCT
        count, dim = rows.shape
        cells = min(int(4 * count**0.5), count // _ROWS_PER_CELL)
        if cells < _PROBED_SHARE:
            self._index = faiss.IndexFlat(dim, metric)
        else:
            centers = faiss.IndexFlat(dim, metric)
            self._index = faiss.IndexIVFFlat(centers, dim, cells, metric)
            self._centers = centers  # faiss keeps a pointer only
            self._index.nprobe = -(-cells // _PROBED_SHARE)
            chosen = np.random.default_rng(0).choice(count, min(count, 2 * _ROWS_PER_CELL * cells), replace=False)
            self._index.train(np.ascontiguousarray(rows[np.sort(chosen)], np.float32))
        for begin in range(0, count, _ADDED_ROWS):
            self._index.add(np.ascontiguousarray(rows[begin : begin + _ADDED_ROWS], np.float32))

    def search(self, vectors: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
        """Pairs (query, row) among which the `count` best of each query that faiss finds are, ties included if few."""
        wanted = min(2 * count + 8, self._index.ntotal)
        _, found = self._index.search(np.ascontiguousarray(vectors, np.float32), wanted)
        query, column = np.nonzero(found >= 0)
        return query, found[query, column]
