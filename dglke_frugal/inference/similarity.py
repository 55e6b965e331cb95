"""Similar embeddings: dglke_emb_sim's question. Measures as in DGL-KE, models/pytorch/tensor_models.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple

import numpy as np

from .. import _native
from .._native import Operation
from ..divergence import check_rows, check_scores
from ..errors import InputError
from ..evaluation.best_rows import Found, best_of_all, best_rows
from ..evaluation.model import rows_of, take_rows
from .completion import check_count, check_range
from .index import make_table, refuse_faiss

if TYPE_CHECKING:
    import torch

MEASURES = ("cosine", "l2", "l1", "dot", "ext_jaccard")
MODES = ("pairwise", "all", "batch_left")
_UNIT_BLOCK = 1 << 16  # rows scaled together
_BLOCK = 1024  # left rows whose similarities to all right rows are in work together


def similarities(table: np.ndarray, left: np.ndarray, right: np.ndarray, measure: str) -> np.ndarray:
    """Similarity (n,) float32 of the rows left[i] and right[i]; larger is more alike, distances count as negative.

    table: numpy, or a torch tensor, of which the rows needed are brought over.
    cosine a.b / (|a| |b|), l2 -|a - b|, l1 -sum |a - b|, dot a.b, ext_jaccard a.b / (|a|^2 + |b|^2 - a.b); the cosine
    of a row of zeros is 0, and so is the ext_jaccard of two.

    Raises Diverged for a similarity that is NaN or infinite.
    """
    with np.errstate(over="ignore"):  # which is infinite then
        return check_scores(_similarities(table, left, right, measure), measure)


def _similarities(table, left, right, measure) -> np.ndarray:
    if not isinstance(table, np.ndarray):
        needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        table, (left, right) = take_rows(table, needed), np.split(places.ravel(), [len(left)])
    if measure == "l2":
        return -np.sqrt(-_native.pair_keys(Operation.L2, table, table, left, right)).astype(np.float32)
    if measure == "l1":
        return _native.pair_keys(Operation.L1, table, table, left, right).astype(np.float32)
    dots = _native.pair_keys(Operation.DOT, table, table, left, right)
    if measure == "dot":
        return dots.astype(np.float32)
    squares = [_native.pair_keys(Operation.DOT, table, table, ids, ids) for ids in (left, right)]
    whole = np.sqrt(squares[0] * squares[1]) if measure == "cosine" else squares[0] + squares[1] - dots
    return (dots / np.where(whole == 0, 1, whole)).astype(np.float32)  # of zeros the dot is 0


def most_similar(table: np.ndarray, left: np.ndarray, right: np.ndarray, mode: str, measure: str, k: int,
                 device: Optional[torch.device] = None,
                 index: str = "exact") -> List[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The k most similar pairs: element by element, of all combinations, or for each left object.

    Args:
        table: (n, dim) float32 embeddings.
        left, right: ids, int64.
        mode: one of MODES, as in dglke_emb_sim.
        measure: one of MEASURES.
        k: how many; fewer are returned if there are fewer.
        device: a GPU that searches; None for the CPU. The numbers are the same.
        index: one of index.INDEXES.

    Returns:
        (left ids, right ids, similarities float32), best first; with batch_left one for each left object.

    Raises:
        InputError: unknown mode or measure, k below 1, lists of different length with pairwise, an id out of range, or
            an index that the measure does not have.
    """
    if measure not in MEASURES:
        raise InputError(f"unknown sim_func {measure}; choose one of {', '.join(MEASURES)}")
    if mode not in MODES:
        raise InputError(f"unknown exec_mode {mode}; choose one of {', '.join(MODES)}")
    check_count(k)
    check_range("left", left, len(table))
    check_range("right", right, len(table))
    if mode == "pairwise":
        if len(left) != len(right):
            raise InputError(
                f"pairwise needs lists of one length, but there are {len(left)} left and {len(right)} right objects")
        scores = similarities(table, left, right, measure)
        order = np.argsort(-scores.astype(np.float64), kind="stable")[:k]
        return [(left[order], right[order], scores[order])]
    search = SimilaritySearch(table, right, measure, device, index)
    return search.batch_left(left, k) if mode == "batch_left" else [search.best_of_all(left, k)]


class SimilaritySearch:
    """The right-hand rows, prepared so that the best of a measure are the best of a product or a distance.

    table: (n, dim) float32, numpy or a torch tensor on `device`. right: ids, int64. Raises InputError for an unknown
    measure, or an index that it does not have.
    """

    def __init__(self, table: Any, right: np.ndarray, measure: str, device: Optional[torch.device] = None,
                 index: str = "exact"):
        if measure not in MEASURES:
            raise InputError(f"unknown sim_func {measure}; choose one of {', '.join(MEASURES)}")
        self._table, self._right, self._measure, self._device = table, right, measure, device
        rows = rows_of(table, right)
        if measure == "cosine":
            rows = _unit_rows(rows)
        if measure == "ext_jaccard":
            refuse_faiss(index, "ext_jaccard")
            check_rows(rows, "the candidates' embeddings")
            self._rows = rows
            return
        self._operation = {"l2": Operation.L2, "l1": Operation.L1}.get(measure, Operation.DOT)
        self._rows = make_table(rows, self._operation, device, index)

    def batch_left(self, left: np.ndarray, k: int) -> List[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The k most similar right objects for each left one, as most_similar returns them."""
        results = []
        for begin, count, found in self._found(left, k):
            found = found.best(k, found.query)
            stops = np.searchsorted(found.query, np.arange(begin, begin + count + 1))
            results += [(left[found.query[a:b]], self._right[found.row[a:b]], found.score[a:b])
                        for a, b in zip(stops, stops[1:])]
        return results

    def best_of_all(self, left: np.ndarray, k: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k most similar of all pairs."""
        best = best_of_all((found for _, _, found in self._found(left, k)), k)
        return left[best.query], self._right[best.row], best.score

    def _found(self, left, k) -> Iterator[Tuple[int, int, Found]]:
        check_count(k)
        for begin in range(0, len(left), _BLOCK):
            ids = left[begin : begin + _BLOCK]
            query, row = self._shortlist(take_rows(self._table, ids), k)
            scores = similarities(self._table, ids[query], self._right[row], self._measure)
            yield begin, len(ids), Found(query + begin, row, scores)

    def _shortlist(self, vectors, k):
        """Pairs (query, position in right) among which the k best of each query are."""
        if self._measure != "ext_jaccard":
            found = best_rows(self._operation, vectors, self._rows, k, lambda keys: keys.astype(np.float32))
            return found.query, found.row
        import torch

        from ..evaluation.device_ranking import most_overlapping

        check_rows(vectors, "the left embeddings")
        return most_overlapping(vectors, self._rows, k, self._device or torch.device("cpu"))


def _unit_rows(rows):
    """Rows of length 1, zeros stay; their rounding is within the error bound's allowance of ten roundings."""
    if not isinstance(rows, np.ndarray):
        import torch

        unit = torch.empty_like(rows)
        for begin in range(0, len(rows), _UNIT_BLOCK):
            block = rows[begin : begin + _UNIT_BLOCK].detach().double()
            lengths = block.square().sum(dim=1, keepdim=True).sqrt()
            unit[begin : begin + len(block)] = block / torch.where(lengths > 0, lengths, 1.0)
        return unit
    unit = np.empty(rows.shape, np.float32)
    for begin in range(0, len(rows), _UNIT_BLOCK):
        block = rows[begin : begin + _UNIT_BLOCK].astype(np.float64)
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        unit[begin : begin + len(block)] = block / np.where(lengths > 0, lengths, 1)[:, None]
    return unit
