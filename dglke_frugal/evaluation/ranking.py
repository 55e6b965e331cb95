"""Ranks of true triples among candidates: float32 products by blocks, and exact arithmetic where those cannot decide.

A rank is defined by exact scores: the key of a pair is summed in float64 and rounded as DGL-KE's float32 score would
be. Computing 10^9 of them that way would be slow, so float32 tiles count the candidates that are better beyond any
rounding error, and only the pairs within the error bound are computed exactly. Ranks are therefore the same for every
number of threads, block size, processor and device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Iterator, Optional, Tuple

import numpy as np

from .. import _native
from .._native import Operation
from ..divergence import Diverged, check_rows
from .known_triples import KnownTriples, Lists
from .model import HEAD, TAIL, EmbeddingModel, columns_of, take_rows

if TYPE_CHECKING:
    import torch

_UNIT = 2.0**-24  # rounding error of one float32 operation, relative
_LIMIT = float(np.finfo(np.float32).max)
_BLOCK_PRODUCTS = 1 << 37  # a second or two on a few cores
_NORM_BLOCK = 65536  # rows whose norms are computed together


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """Rows that compete, with what the error bounds need to know of them.

    Attributes:
        rows: (n, dim) float32: numpy (may be strided), or a torch tensor on `device`.
        squares: (n,) float32, -|row|^2 rounded, or None where the operation does not need it; a tensor on `device`.
        longest: an upper bound of |row| over all rows, where keys are products; 0 elsewhere.
        largest: the largest |x| of all rows.
        device: the torch device that compares; None for the C++ kernel.
        shortlist: (vectors, count) -> pairs (query, row), how best rows are searched instead of among all rows.
    """

    rows: object
    squares: object
    longest: float
    largest: float
    device: Optional[torch.device] = None
    shortlist: Optional[Callable] = None

    @classmethod
    def of(cls, rows, operation: Operation, device: Optional[torch.device] = None) -> "CandidateTable":
        """Measures `rows` for `operation`. Raises Diverged if they hold NaN or infinite numbers."""
        largest = check_rows(rows, "the candidates' embeddings")
        if operation not in (Operation.DOT, Operation.L2):
            return cls(rows, None, 0.0, largest, device)
        if device is None:
            squares = _squared_lengths(rows)
        else:
            from .device_ranking import squared_lengths

            squares = squared_lengths(rows, device)
        longest = float(squares.max()) ** 0.5 * (1 + 1e-12) if len(squares) else 0.0
        if operation == Operation.DOT:
            return cls(rows, None, longest, largest, device)
        if device is not None:
            return cls(rows, (-squares).float(), longest, largest, device)
        with np.errstate(over="ignore"):  # which _check_range refuses
            return cls(rows, (-squares).astype(np.float32), longest, largest)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Per true triple: how many candidates score better and how many equally."""

    better: np.ndarray  # (n,) int64
    equal: np.ndarray  # (n,) int64
    close_calls: int  # pairs that float32 could not decide and that were computed exactly


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries of one side and the true triples that ask them, several of which may share a query.

    Attributes:
        vectors: (q, dim) float32, as candidates are scored with them.
        true_vectors: the same for the true triple; usually `vectors` itself.
        asked_by: (n,) ascending query of each true triple.
        true_rows: (n, dim) float32 row of the true entity of each triple.
        excluded: per query, the candidates that never count (ascending row ids of the candidate table).
    """

    vectors: np.ndarray
    true_vectors: np.ndarray
    asked_by: np.ndarray
    true_rows: np.ndarray
    excluded: Lists


@dataclass(frozen=True, eq=False)
class Share:
    """Some of the entities, where each of several machines compares with a share of them: counts are then summed.

    Attributes:
        rows: (n, dim) float32, as EmbeddingModel.entity.
        among: from lists of entities to those of them that are in the share, by their ascending numbers there.
    """

    rows: object
    among: Callable[[Lists], Lists]


def compare(model: EmbeddingModel, queries: Queries, table: CandidateTable, candidates: Optional[np.ndarray] = None,
            group: int = 1) -> Comparison:
    """Compares each true triple with its candidates: all rows of `table`, or lists of them.

    Args:
        model: names the operation and the scores.
        queries: see Queries.
        table: the candidate rows.
        candidates: (groups, k) int64 row ids; queries g * group .. (g + 1) * group - 1 have list g. CPU only.
        group: how many consecutive queries share a list.

    Raises:
        Diverged: a score is NaN or infinite.
    """
    operation = model.operation
    everyone = np.arange(len(queries.asked_by))
    true_keys = _native.pair_keys(operation, queries.true_vectors, queries.true_rows, queries.asked_by, everyone)
    true_scores = model.scores(true_keys)
    low, high = _uncertain_keys(model, true_keys, true_scores)
    low, high = _tile_thresholds(operation, low, high, queries, table)
    zero = _zero_keys(operation, queries, table)
    low[zero] = high[zero] = _LIMIT  # no pair of theirs is looked at
    positives = np.searchsorted(queries.asked_by, np.arange(len(queries.vectors) + 1)).astype(np.int64)
    tile_vectors = 2 * queries.vectors if operation == Operation.L2 else queries.vectors
    if table.device is None:
        better, triple, row = _native.count_better(operation, tile_vectors, table.rows, table.squares,
                                                   queries.excluded.pointers, queries.excluded.items, positives, low,
                                                   high, candidates, group)
        uncertain_rows, row_of_pair = table.rows, row
    else:
        from .device_ranking import count_better

        better, triple, row = count_better(operation, tile_vectors, table, queries.excluded, positives, low, high)
        needed, row_of_pair = np.unique(row, return_inverse=True)
        uncertain_rows = take_rows(table.rows, needed)
    keys = _native.pair_keys(operation, queries.vectors, uncertain_rows, queries.asked_by[triple], row_of_pair)
    scores = model.scores(keys)
    above = np.bincount(triple[scores > true_scores[triple]], minlength=len(everyone))
    equal = np.bincount(triple[scores == true_scores[triple]], minlength=len(everyone))
    better = better + above
    if zero.any():
        compared = _compared(queries, len(table.rows), candidates, group)[queries.asked_by[zero]]
        better[zero] = np.where(true_scores[zero] < 0, compared, 0)
        equal[zero] = np.where(true_scores[zero] == 0, compared, 0)
    if model.bound:
        compared = _compared(queries, len(table.rows), candidates, group)[queries.asked_by]
        better, equal = _unclamp(model.bound, true_scores, better, equal, compared)
    return Comparison(better, equal, len(triple))


def _zero_keys(operation: Operation, queries: Queries, table: CandidateTable) -> np.ndarray:
    """(n,) whether all candidates of a true triple have the key 0, as in a model that regularization has emptied.

    To compute such keys exactly, as ties are otherwise, would take thousands of times as long as all others.
    """
    if operation != Operation.DOT:
        return np.zeros(len(queries.asked_by), bool)
    return ~queries.vectors.any(axis=1)[queries.asked_by]


def _unclamp(bound, true_scores, better, equal, compared):
    """At the bounds of SimplE's scores, what is beyond one ties with what is on it, although its key differs."""
    top, bottom = true_scores >= bound, true_scores <= -bound
    equal = np.where(top, equal + better, np.where(bottom, compared - better, equal))
    return np.where(top, 0, better), equal


def _compared(queries, rows, candidates, group) -> np.ndarray:
    """Per query, how many candidates are not excluded."""
    if candidates is None:
        return rows - np.diff(queries.excluded.pointers)
    return np.array([(~np.isin(candidates[query // group], queries.excluded.of(query))).sum()
                     for query in range(len(queries.vectors))])


def _uncertain_keys(model, keys, scores) -> Tuple[np.ndarray, np.ndarray]:
    """Keys outside the returned intervals have certainly a worse or a better rounded score than the true triple's."""
    score_step = np.spacing(np.abs(scores)).astype(np.float64)
    if model.operation == Operation.DOT:
        keys = model.clamped(keys)
        return keys - 2 * score_step, keys + 2 * score_step
    distance = np.sqrt(-keys) if model.operation == Operation.L2 else -keys
    slack = 2 * (score_step + np.spacing(distance.astype(np.float32)).astype(np.float64))
    near, far = np.maximum(distance - slack, 0.0), distance + slack
    return (-far * far, -near * near) if model.operation == Operation.L2 else (-far, -near)


def tile_error(operation: Operation, vectors: np.ndarray, table: CandidateTable) -> Tuple[np.ndarray, float]:
    """Bounds of the error of float32 keys: absolute per query (q,), and relative to the key.

    A float32 sum of n products is off by at most n u sum |a_i b_i| <= n u |a| |b| in any order of summation, u = 2^-24
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); the factor 1.02 pays for second-order terms.
    In sums of terms of one sign the error is relative to the sum.

    Raises Diverged where a key may be beyond float32: what is infinite or NaN there has no error that is bounded.
    """
    _check_range(operation, vectors, table)
    factor = 1.02 * _UNIT * (vectors.shape[1] + 10)
    if operation in (Operation.L1, Operation.MODULUS):
        tiny = (
            1e-15 * vectors.shape[1] if operation == Operation.MODULUS else 0.0
        )  # see square_root in tile_kernel_body.h
        return np.full(len(vectors), tiny), factor
    products = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) * table.longest
    tiny = 1e-35  # products may underflow
    if operation == Operation.L2:  # the tile holds 2 a.b - |b|^2
        return factor * 2 * products + 4 * _UNIT * (2 * products + table.longest**2) + tiny, 0.0
    return factor * products + tiny, 0.0


def _check_range(operation: Operation, vectors: np.ndarray, table: CandidateTable) -> None:
    """Raise Diverged unless all float32 keys of these queries, and what they are made of, are finite."""
    largest = check_rows(vectors, "the queries' embeddings")
    dim = vectors.shape[1]
    if operation in (Operation.DOT, Operation.L2):
        longest = largest * dim**0.5
        most = longest * table.longest if operation == Operation.DOT else (longest + table.longest) ** 2
    else:
        most = dim * (largest + table.largest)
        if operation == Operation.MODULUS:  # which squares differences first
            most = max(most, (largest + table.largest) ** 2)
    if 2 * most > _LIMIT:
        raise Diverged("the embeddings are so large that float32 cannot hold the scores of all candidates")


def _tile_thresholds(operation, low, high, queries, table) -> Tuple[np.ndarray, np.ndarray]:
    """The intervals in terms of float32 tiles: moved by what the tiles leave out, widened by their error."""
    absolute, relative = tile_error(operation, queries.vectors, table)
    absolute = absolute[queries.asked_by]
    low, high = low - relative * np.abs(low) - absolute, high + relative * np.abs(high) + absolute
    if operation == Operation.L2:
        squares = np.einsum("ij,ij->i", queries.vectors, queries.vectors, dtype=np.float64)[queries.asked_by]
        low, high = low + squares, high + squares
    low = np.nextafter(np.clip(low, -_LIMIT, _LIMIT).astype(np.float32), np.float32(-_LIMIT))
    high = np.nextafter(np.clip(high, -_LIMIT, _LIMIT).astype(np.float32), np.float32(_LIMIT))
    return low, high


def _squared_lengths(rows: np.ndarray) -> np.ndarray:
    squares = np.empty(len(rows), dtype=np.float64)
    for begin in range(0, len(rows), _NORM_BLOCK):
        block, out = rows[begin : begin + _NORM_BLOCK], squares[begin : begin + _NORM_BLOCK]
        np.einsum("ij,ij->i", block, block, dtype=np.float64, casting="same_kind", out=out)
    return squares


def rank_against_all(model: EmbeddingModel, side: str, triples: Tuple, known: Optional[KnownTriples],
                     table: Optional[CandidateTable] = None, done: Callable[[int], None] = lambda count: None,
                     share: Optional[Share] = None) -> Comparison:
    """Compares triples with all entities in place of `side`, or with a share of them.

    Args:
        model: says where it is ranked.
        side: HEAD or TAIL, the place that candidates take.
        triples: (heads, relations, tails), each (n,) ids.
        known: triples to leave out; None leaves out only the triple itself (the unfiltered protocol).
        table: CandidateTable.of the entity table, if it is at hand already.
        done: is told how many more triples are compared.
        share: the entities that compete, of which `table` is made; None: all.
    """
    candidates = model.entity if share is None else share.rows
    stays, relations, moves = columns_of(side, triples)
    if table is None and not model.projects:
        table = CandidateTable.of(candidates, model.operation, model.device)
    block = min(max(_BLOCK_PRODUCTS // (len(model.entity) * model.entity.shape[1]), 1 << 10), 1 << 16)
    order = np.lexsort((stays, relations))  # by relation first, since TransR changes its table with it
    stays, relations, moves = stays[order], relations[order], moves[order]
    if known is None:
        starts = np.arange(len(order))  # each triple leaves out another candidate, so none share a query
    else:
        starts = np.flatnonzero(np.diff(relations, prepend=-1) | np.diff(stays, prepend=-1))
        ask = known.heads if side == HEAD else known.tails
        answers = ask(stays[starts], relations[starts])
        query = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        new = ~answers.contain(query, moves)
        if new.any():  # a triple that is not known must not compete with itself, but with those of the same query
            again = np.lexsort((new, query))
            order, stays, relations, moves, query, new = (
                column[again] for column in (order, stays, relations, moves, query, new))
            starts = np.flatnonzero((np.diff(query, prepend=-1) > 0) | new)
            answers = answers.take(query[starts]).with_items(np.flatnonzero(new[starts]), moves[starts[new[starts]]])
    ends = np.append(starts[1:], len(order))
    better, equal, close_calls = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64), 0
    for first, last in _blocks(relations[starts], block, model.projects):
        asked, here = starts[first:last], slice(starts[first], ends[last - 1])
        fixed, relation = stays[asked], relations[asked]
        if known is None:
            excluded = Lists(np.arange(last - first + 1), moves[here])
        else:
            excluded = answers.take(np.arange(first, last))
        if model.projects:
            rows = model.candidate_rows(candidates, int(relation[0]))
            table = CandidateTable.of(rows, model.operation, model.device)
        vectors, true_vectors = query_vectors(model, side, take_rows(model.entity, fixed), relation)
        asked_by = np.repeat(np.arange(last - first), ends[first:last] - asked)
        if share is None:
            true_rows = take_rows(table.rows, moves[here])
        else:
            true_rows = model.candidate_rows(take_rows(model.entity, moves[here]), int(relation[0]))
            excluded = share.among(excluded)
        part = compare(model, Queries(vectors, true_vectors, asked_by, true_rows, excluded), table)
        better[order[here]], equal[order[here]] = part.better, part.equal
        close_calls += part.close_calls
        done(here.stop - here.start)
    return Comparison(better, equal, close_calls)


def query_vectors(model: EmbeddingModel, side: str, entities: np.ndarray, relations: np.ndarray):
    """Query vectors for candidates, and for the true triple (the same array where they are equal)."""
    vectors = model.queries(side, entities, relations)
    if side == TAIL and model.compares_two_formulas:
        return model.queries(side, entities, relations, as_negative=True), vectors
    return vectors, vectors


def _blocks(relations, block, one_relation) -> Iterator[Tuple[int, int]]:
    """Consecutive ranges of at most `block` queries, of one relation each if asked."""
    stops = [len(relations)]
    if one_relation:
        stops = np.append(np.flatnonzero(np.diff(relations)) + 1, len(relations)).tolist()
    begin = 0
    for stop in stops:
        while begin < stop:
            end = min(begin + block, stop)
            yield begin, end
            begin = end
