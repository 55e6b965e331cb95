"""The best triples among all combinations of given heads, relations and tails: dglke_predict's question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Iterator, List, Optional, Tuple

import numpy as np

from .. import _native
from ..errors import InputError, shown
from ..evaluation import KnownTriples
from ..evaluation.best_rows import Found, best_of_all, best_rows
from ..evaluation.known_triples import KnownAnswers, Lists
from ..evaluation.model import HEAD, TAIL, EmbeddingModel, rows_of, take_rows
from ..evaluation.ranking import CandidateTable
from .index import make_table, refuse_faiss
from .known import KnownOfPairs, are_known, best_unknown

EXEC_MODES = ("triplet_wise", "all", "batch_head", "batch_rel", "batch_tail")
MOST_RESULTS = 2**31 - 1
_QUERIES = 4096  # query vectors in work at a time


@dataclass(frozen=True, eq=False)
class ScoredTriples:
    """Triples and their scores, parallel arrays: ids int64, scores float32."""

    heads: np.ndarray
    relations: np.ndarray
    tails: np.ndarray
    scores: np.ndarray


def triple_keys(model: EmbeddingModel, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Exact keys (n,) float64 of triples given by ids (n,) each; `model.scores` makes scores of them."""
    if model.is_custom:
        from ..evaluation.custom_model import scores_of_triples  # here, because it takes torch's import time

        return scores_of_triples(model, heads, relations, tails)
    keys = np.empty(len(heads), np.float64)
    order = np.argsort(relations, kind="stable") if model.projects else np.arange(len(heads))
    for members in _parts(order, relations, model.projects):
        rows = model.candidate_rows(take_rows(model.entity, tails[members]), int(relations[members[0]]))
        vectors = model.queries(TAIL, take_rows(model.entity, heads[members]), relations[members])
        everyone = np.arange(len(members))
        keys[members] = _native.pair_keys(model.operation, vectors, rows, everyone, everyone)
    return keys


def _parts(order, relations, by_relation) -> Iterator[np.ndarray]:
    stops = np.flatnonzero(np.diff(relations[order])) + 1 if by_relation else []
    for part in np.split(order, stops):
        for begin in range(0, len(part), _QUERIES):
            yield part[begin : begin + _QUERIES]


def best_triples(model: EmbeddingModel, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, exec_mode: str,
                 k: int, score: Callable[[np.ndarray], np.ndarray] = None, index: str = "exact",
                 known: Optional[KnownTriples] = None) -> List[ScoredTriples]:
    """The k best triples: of the lists taken element by element, of all combinations, or for each element of one list.

    Args:
        heads, relations, tails: ids, int64; duplicates stay duplicates.
        exec_mode: one of EXEC_MODES, as in dglke_predict.
        k: how many; fewer are returned if there are fewer combinations.
        score: from exact float64 keys to the float32 scores to rank by, monotone; the model's scores by default.
        index: one of index.INDEXES; a custom model has the exact one only.
        known: triples that are no answers.

    Returns:
        One result, or with the batch modes one for each head, relation or tail; best first.

    Raises:
        InputError: an unknown mode, k below 1, lists of different length with triplet_wise, or an id out of range.
    """
    if exec_mode not in EXEC_MODES:
        raise InputError(f"unknown exec_mode {exec_mode}; choose one of {', '.join(EXEC_MODES)}")
    check_count(k)
    check_range("head", heads, len(model.entity))
    check_range("relation", relations, model.n_relations)
    check_range("tail", tails, len(model.entity))
    score = score or model.scores
    if exec_mode == "triplet_wise":
        return _best_of_list(model, heads, relations, tails, k, score, known)
    side = HEAD if exec_mode == "batch_tail" else TAIL
    stays, moves = (tails, heads) if side == HEAD else (heads, tails)
    groups = {"all": 1, "batch_rel": len(relations)}.get(exec_mode, len(stays))
    search = _search(model, moves, index)
    answers = None if known is None else KnownOfPairs(known, side, stays, relations)
    results = []
    for group in range(groups):
        if exec_mode == "all":
            pairs = np.arange(len(stays) * len(relations))
        elif exec_mode == "batch_rel":
            pairs = np.arange(len(stays)) * len(relations) + group
        else:
            pairs = group * len(relations) + np.arange(len(relations))
        results.append(_best_of_pairs(model, side, stays, relations, moves, pairs, k, score, search, answers))
    return results


def best_entities(model: EmbeddingModel, side: str, stays: np.ndarray, relations: np.ndarray, k: int,
                  known: Optional[KnownTriples] = None) -> List[Tuple[np.ndarray, np.ndarray]]:
    """The k best entities for each of a list of questions.

    Args:
        side: HEAD for the heads of (?, relation, tail), TAIL for the tails of (head, relation, ?).
        stays, relations: ids (n,) int64 of the entity and the relation that question i gives.
        k: how many; fewer are returned if the model has fewer.
        known: triples that are no answers.

    Returns:
        (ids int64, scores float32) for each question, best first.

    Raises:
        InputError: k below 1, or an id out of range.
    """
    check_count(k, "k")
    check_range("entity", stays, len(model.entity))
    check_range("relation", relations, model.n_relations)
    everyone = np.arange(len(model.entity))
    search = _search(model, everyone, "exact")
    lists = None if known is None else KnownAnswers(side, stays, relations, known)
    answers: List[Tuple[np.ndarray, np.ndarray]] = [None] * len(stays)
    order = np.argsort(relations, kind="stable") if model.projects else np.arange(len(stays))
    for members in _parts(order, relations, model.projects) if len(stays) else ():
        known_here = None if lists is None else lists.of(members)
        found = _best(model, search, side, stays[members], relations[members], everyone, k, model.scores, known_here)
        found = found.best(k, found.query)
        bounds = np.searchsorted(found.query, np.arange(len(members) + 1))
        for member, begin, end in zip(members, bounds, bounds[1:]):
            answers[member] = (found.row[begin:end], found.score[begin:end])
    return answers


def check_count(k: int, name: str = "topK") -> None:
    """InputError if nobody can be asked for k results."""
    if not 1 <= k <= MOST_RESULTS:
        raise InputError(f"{name} is {shown(k)}; ask for at least 1 result and at most {MOST_RESULTS}")


def check_range(what: str, ids: np.ndarray, rows: int) -> None:
    """InputError if an id is negative or not below `rows`."""
    wrong = (ids < 0) | (ids >= rows)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InputError(
            f"{what} id {ids[first]} (item {first} of its list) is not in the model, which has {rows} of them")


def _best_of_list(model, heads, relations, tails, k, score, known):
    if not len(heads) == len(relations) == len(tails):
        raise InputError(f"triplet_wise needs lists of one length, but there are {len(heads)} heads, {len(relations)} "
                         f"relations and {len(tails)} tails")
    if known is not None:
        new = ~are_known(known, heads, relations, tails)
        heads, relations, tails = heads[new], relations[new], tails[new]
    scores = score(triple_keys(model, heads, relations, tails))
    order = np.argsort(-scores.astype(np.float64), kind="stable")[:k]
    return [ScoredTriples(heads[order], relations[order], tails[order], scores[order])]


def _best_of_pairs(model, side, stays, relations, moves, pairs, k, score, search, answers) -> ScoredTriples:
    """`pairs` number the combinations of `stays` and `relations`; each is scored with all of `moves`."""
    pair_relations = relations[pairs % len(relations)]
    order = np.argsort(pair_relations, kind="stable") if model.projects else np.arange(len(pairs))

    def best(members: np.ndarray) -> Found:
        fixed, known_here = stays[pairs[members] // len(relations)], answers and answers.of(pairs[members])
        part = _best(model, search, side, fixed, pair_relations[members], moves, k, score, known_here)
        return replace(part, query=members[part.query])

    found = best_of_all(map(best, _parts(order, pair_relations, model.projects)), k)
    stayed, moved = stays[pairs[found.query] // len(relations)], moves[found.row]
    heads, tails = (moved, stayed) if side == HEAD else (stayed, moved)
    return ScoredTriples(heads, pair_relations[found.query], tails, found.score)


def _best(model, search, side, stays, relations, moves, k, score, known_here: Optional[Lists]) -> Found:
    """At least the k best of `moves` for each query, without its known answers; all are of one relation for TransR."""

    def best(queries, count):
        return search.best(side, stays[queries], relations[queries], count, score)

    if known_here is None:
        return best(slice(None), k)
    return best_unknown(known_here, moves, len(model.entity), k, best)


def _search(model: EmbeddingModel, moves: np.ndarray, index: str):
    if not model.is_custom:
        return _Tables(model, moves, index)
    from .custom_search import CustomSearch  # here, because it takes torch's import time

    if index != "exact":
        refuse_faiss(index, "a custom model")
    return CustomSearch(model, moves)


class _Tables:
    """The rows that move, ready to be searched: the same for all relations, but for TransR's."""

    def __init__(self, model: EmbeddingModel, moves: np.ndarray, index: str):
        self._model, self._index = model, index
        self._relation, self._table, self._rows = None, None, rows_of(model.entity, moves)

    def best(self, side, stays, relations, k, score) -> Found:
        """The k best rows for each query, and perhaps a few more; all are of one relation for TransR."""
        vectors = self._model.queries(side, take_rows(self._model.entity, stays), relations)
        return best_rows(self._model.operation, vectors, self._of(int(relations[0])), k, score)

    def _of(self, relation: int) -> CandidateTable:
        model = self._model
        if self._table is None or model.projects and relation != self._relation:
            rows = model.candidate_rows(self._rows, relation)
            self._relation, self._table = relation, make_table(rows, model.operation, model.device, self._index)
        return self._table
