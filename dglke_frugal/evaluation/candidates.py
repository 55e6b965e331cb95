"""Ranking against lists of candidates: sampled ones as in DGL-KE, or the ones that a benchmark gives with each
triple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple

import numpy as np

from .. import _native
from ..arguments import integer, switch
from ..errors import InputError
from .known_triples import KnownAnswers, KnownTriples, Lists
from .model import SIDES, EmbeddingModel, columns_of, take_rows
from .ranking import CandidateTable, Comparison, Queries, compare, query_vectors

GATHERED_BYTES = 1 << 27  # of candidate rows, and of what must not compete, in work at a time
_EXCLUDED_BYTES = 40  # of an item that must not compete, while lists are made
DRAWN_TOGETHER = 256  # groups whose candidates come from one random stream


@dataclass(frozen=True)
class Sampling:
    """How candidates are drawn, as DGL-KE's flags say.

    Attributes:
        count: entities drawn uniformly, with repetition, for each group (--neg_sample_size_eval).
        group: triples that share them (--batch_size_eval, at most `count`).
        by_degree: the group's own entities compete too (--neg_deg_sample_eval), so often seen ones more often.
        seed: the same seed draws the same candidates.
    """

    count: int
    group: int = 8
    by_degree: bool = False
    seed: int = 0

    def __post_init__(self):
        for name, message, least in (("count", "the number of candidates (--neg_sample_size_eval)", 1),
                                  ("group", "the number of triples that share them (--batch_size_eval)", 1),
                                  ("seed", "the seed of candidates", 0)):
            object.__setattr__(self, name, integer(message, getattr(self, name), least))
        switch("by_degree of Sampling", self.by_degree)

    @property
    def shared_by(self) -> int:
        """Triples per group: DGL-KE splits a batch into chunks of as many triples as there are candidates."""
        return min(self.group, self.count)


def draw(sampling: Sampling, side: str, entities: int, first: int, groups: int) -> np.ndarray:
    """Candidates (groups, count) int64 of the groups first .. first + groups - 1; a pure function of its arguments."""
    blocks = []
    for block in range(first // DRAWN_TOGETHER, (first + groups - 1) // DRAWN_TOGETHER + 1):
        random = np.random.default_rng([sampling.seed, SIDES.index(side), block])
        blocks.append(random.integers(0, entities, (DRAWN_TOGETHER, sampling.count)))
    start = first % DRAWN_TOGETHER
    return np.concatenate(blocks)[start : start + groups]


def rank_against_sample(model: EmbeddingModel, side: str, triples: Tuple, known: Optional[KnownTriples],
                        sampling: Sampling) -> Comparison:
    """Compares triples with sampled candidates in place of `side`; known answers and the triple itself do not count."""
    stays, relations, moves = columns_of(side, triples)
    size = sampling.shared_by

    def lists(begin, end):
        first, groups = begin // size, -(-(end - begin) // size)
        drawn = draw(sampling, side, len(model.entity), first, groups)
        if not sampling.by_degree:
            return drawn
        own = np.resize(moves[begin:end], (groups, size))  # a short last group repeats entities to fill its list
        own[-1] = np.resize(moves[begin + (groups - 1) * size : end], size)
        return np.concatenate([own, drawn], axis=1)

    return _rank(model, side, (stays, relations, moves), known, lists, size, sampling.count + size * sampling.by_degree)


def rank_against_given(model: EmbeddingModel, side: str, triples: Tuple, candidates: np.ndarray) -> Comparison:
    """Compares each triple with the entities of its own list, candidates (n, k); nothing is filtered.

    The lists of OGB hold no known answers; a true entity in its own list counts as an equal candidate.

    Raises InputError: one list per triple is needed, and its ids must be entities of the model.
    """
    stays, relations, moves = columns_of(side, triples)
    if candidates.ndim != 2 or len(candidates) != len(stays):
        raise InputError(
            f"there are {len(stays)} triples, but candidates of shape {candidates.shape} for their {side}s; "
            "give one list of candidates per triple")

    def lists(begin, end):
        block = np.asarray(candidates[begin:end], dtype=np.int64)
        if block.size and not (block.min() >= 0 and block.max() < len(model.entity)):
            raise InputError(
                f"a candidate for the {side} of triples {begin} to {end - 1} is not an entity of the model, "
                f"which has {len(model.entity)}; evaluate with the dataset the model was trained on")
        return block

    return _rank(model, side, (stays, relations, moves), None, lists, 1, candidates.shape[1], exclude_self=False)


def _rank(model, side, columns, known, lists: Callable, size: int, width: int, exclude_self: bool = True) -> Comparison:
    """`lists(begin, end)` gives those triples' candidates, a row per group of `size`; begin is a multiple of `size`."""
    stays, relations, moves = columns
    count = len(stays)
    answers = known and KnownAnswers(side, stays, relations, known)
    better, equal, close_calls = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
    group_bytes = max(1, width) * (4 * model.entity.shape[1] + (_EXCLUDED_BYTES * size if answers else 0))
    step = size * max(1, GATHERED_BYTES // group_bytes)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        candidates = lists(begin, end)
        part = _compare_block(model, side, stays[begin:end], relations[begin:end], moves[begin:end], candidates, size,
                              _excluded(moves, answers, begin, end, exclude_self, candidates, size))
        better[begin:end], equal[begin:end] = part.better, part.equal
        close_calls += part.close_calls
    return Comparison(better, equal, close_calls)


def _compare_block(model, side, stays, relations, moves, candidates, size, excluded) -> Comparison:
    count = len(stays)
    distinct, position = np.unique(np.concatenate([moves, candidates.ravel()]), return_inverse=True)
    rows = take_rows(model.entity, distinct)
    true, lists = position[:count], position[count:].reshape(candidates.shape)
    excluded = _among(excluded, distinct)
    vectors, true_vectors = query_vectors(model, side, take_rows(model.entity, stays), relations)
    if size > 1 and not model.projects:
        queries = Queries(vectors, true_vectors, np.arange(count), rows[true], excluded)
        return compare(model, queries, CandidateTable.of(rows, model.operation), lists, size)
    better, equal = np.zeros(count, np.int64), np.zeros(count, np.int64)
    order = np.argsort(relations, kind="stable") if model.projects else np.arange(count)
    stops = np.flatnonzero(np.diff(relations[order])) + 1 if model.projects else []
    for members in np.split(order, stops):
        if not len(members):
            continue
        here = model.candidate_rows(rows, int(relations[members[0]]))
        mine = lists[members // size]
        query = np.repeat(members, mine.shape[1])
        true_scores = model.scores(_native.pair_keys(model.operation, true_vectors, here, members, true[members]))
        scores = model.scores(_native.pair_keys(model.operation, vectors, here, query, mine.ravel())).reshape(
            mine.shape)
        counts = ~_contains(excluded, query, mine.ravel(), len(distinct)).reshape(mine.shape)
        better[members] = ((scores > true_scores[:, None]) & counts).sum(axis=1)
        equal[members] = ((scores == true_scores[:, None]) & counts).sum(axis=1)
    return Comparison(better, equal, lists.size)


def _excluded(moves, answers, begin, end, exclude_self, candidates, size) -> Lists:
    """Candidates that must not compete with the triples begin .. end - 1: themselves and their known answers.

    Of a query with more known answers than candidates (who is male?) only the candidates among them are listed, so that
    neither memory nor time grows with the answers.
    """
    count = end - begin
    if not exclude_self:
        return Lists.empty(count)
    queries, items = np.arange(count), moves[begin:end]
    if answers is not None:
        many = answers.counts(np.arange(begin, end)) > candidates.shape[1]
        few, many = np.flatnonzero(~many), np.flatnonzero(many)
        known = answers.of(begin + few)
        offered = candidates[many // size]
        hit = answers.contain(begin + many, offered)
        queries = np.concatenate([queries, np.repeat(few, np.diff(known.pointers)), np.repeat(many, hit.sum(axis=1))])
        items = np.concatenate([items, known.items, offered[hit]])
    return Lists.from_pairs(queries, items, count)


def _among(lists: Lists, distinct: np.ndarray) -> Lists:
    """The items that are in `distinct` (ascending), as positions in it."""
    place = np.minimum(np.searchsorted(distinct, lists.items), len(distinct) - 1)
    keep = distinct[place] == lists.items
    kept = np.concatenate([[0], np.cumsum(keep)])
    return Lists(kept[lists.pointers].astype(np.int64), place[keep].astype(np.int64))


def _contains(lists: Lists, query: np.ndarray, item: np.ndarray, width: int) -> np.ndarray:
    """Whether each item is in the list of its query; all items are below `width`."""
    if not len(lists.items):
        return np.zeros(len(query), dtype=bool)
    owners = np.repeat(np.arange(len(lists.pointers) - 1), np.diff(lists.pointers))
    stored, wanted = owners * width + lists.items, query * width + item
    place = np.minimum(np.searchsorted(stored, wanted), len(stored) - 1)
    return stored[place] == wanted
