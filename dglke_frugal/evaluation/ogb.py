"""The official protocols of the Open Graph Benchmark, computed here; the ogb package is not needed.

ogbl-wikikg2, ogbl-biokg: the true entity against 500 given ones, heads and tails, equal scores half as better and half
as worse (ogb.linkproppred.Evaluator). WikiKG90M, WikiKG90Mv2: the reciprocal rank of the true tail among ten predicted
ones, 0 if it is not there (ogb.lsc.WikiKG90Mv2Evaluator).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np

from .. import _native
from ..arguments import read_ids, read_together, read_triples
from ..errors import InputError
from .best_rows import Found, best_rows
from .candidates import rank_against_given
from .model import SIDES, TAIL, EmbeddingModel, take_rows
from .protocol import Evaluation, Protocol, check_ids
from .ranking import CandidateTable

PREDICTED = 10  # tails per query that count in the large-scale challenge
_BLOCK = 256  # queries in work together


def evaluate_link(model: EmbeddingModel, triples: Any,
                  candidates: Mapping[str, Callable[[], np.ndarray]]) -> Evaluation:
    """ogbl-wikikg2 and ogbl-biokg: `metrics().mrr` of the result is what their leaderboards show.

    Args:
        triples: those of the split, in any form of arguments.read_triples.
        candidates: functions that load `head_neg` and `tail_neg`, (n, k) ids each; see KnowledgeGraph.candidates.

    Raises:
        InputError: a list is missing, does not fit the triples, or names no entity of the model.
    """
    triples = read_triples(triples)
    check_ids(model, triples)
    compared = {}
    for side in SIDES:
        if f"{side}_neg" not in candidates:
            raise InputError(
                f"the data set gives no {side}_neg, the candidates of OGB's protocol; use ogbl-wikikg2 or ogbl-biokg")
        compared[side] = rank_against_given(model, side, triples, candidates[f"{side}_neg"]())
    return Evaluation(triples, compared, Protocol("realistic", "kept"))


def predict_tails(model: EmbeddingModel, heads: np.ndarray, relations: np.ndarray,
                  candidates: Optional[np.ndarray] = None) -> np.ndarray:
    """The ten best distinct tails of each query (head, relation, ?), best first: (n, 10) int64, -1 if there are fewer.

    Args:
        heads, relations: (n,) ids.
        candidates: (n, k) entity ids to choose from, as in WikiKG90M; None chooses from all, as in WikiKG90Mv2.
    """
    _, columns = read_together(read_ids, heads=heads, relations=relations)
    heads, relations = (column.astype(np.int64, copy=False) for column in columns)
    check_ids(model, (heads, relations, heads))
    if model.projects:
        raise InputError("TransR has no predictions of tails over many relations; rank its triples instead")
    if candidates is not None and (candidates.ndim != 2 or len(candidates) != len(heads)):
        raise InputError(
            f"there are {len(heads)} queries, but candidates of shape {candidates.shape}; give one list per query")
    table = CandidateTable.of(model.entity, model.operation) if candidates is None else None
    top = np.full((len(heads), PREDICTED), -1, np.int64)
    for begin in range(0, len(heads), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        vectors = model.queries(TAIL, take_rows(model.entity, heads[block]), relations[block])
        if candidates is None:
            found = best_rows(model.operation, vectors, table, PREDICTED, model.scores)
        else:
            found = _score_lists(model, vectors, np.asarray(candidates[block], np.int64), begin)
        found = found.best(PREDICTED, found.query)
        starts = np.searchsorted(found.query, np.arange(len(vectors)))
        top[begin + found.query, np.arange(len(found.query)) - starts[found.query]] = found.row
    return top


def evaluate_challenge(model: EmbeddingModel, arrays: Mapping[str, Callable[[], np.ndarray]]) -> Dict[str, float]:
    """WikiKG90M's and WikiKG90Mv2's metric on a split whose answers are published: {"mrr": ...}.

    arrays: functions that load hr (n, 2) and the true tails: t (n,), or t_candidate (n, k) with t_correct_index (n,);
        see KnowledgeGraph.candidates. Predictions are chosen among t_candidate where it is given.

    Raises InputError: an array is missing, or an id is not in the model.
    """
    if "hr" not in arrays or not ("t" in arrays or {"t_candidate", "t_correct_index"} <= set(arrays)):
        raise InputError(
            "the split has no queries with published answers (hr, and t or t_candidate with t_correct_index)")
    queries = arrays["hr"]()
    candidates = arrays["t_candidate"]() if "t_candidate" in arrays else None
    tails = arrays["t"]() if "t" in arrays else candidates[np.arange(len(queries)), arrays["t_correct_index"]()]
    return predicted_mrr(predict_tails(model, queries[:, 0], queries[:, 1], candidates), tails)


def _score_lists(model, vectors, lists, begin) -> Found:
    if lists.size and not (lists.min() >= 0 and lists.max() < len(model.entity)):
        raise InputError(f"a candidate of queries {begin} to {begin + len(lists) - 1} is not an entity of the model, "
                         f"which has {len(model.entity)}")
    pairs = np.unique(np.repeat(np.arange(len(lists)), lists.shape[1]) * len(model.entity) + lists.ravel())
    query, row = np.divmod(pairs, len(model.entity))
    distinct, position = np.unique(row, return_inverse=True)
    rows = take_rows(model.entity, distinct)
    return Found(query, row, model.scores(_native.pair_keys(model.operation, vectors, rows, query, position)))


def predicted_mrr(top: np.ndarray, tails: np.ndarray) -> Dict[str, float]:
    """WikiKG90Mv2's metric {"mrr": ...} of predictions (n, 10) for the true tails (n,).

    As officially, predicting one tail twice for a query makes the whole metric 0.
    """
    if top.ndim != 2 or top.shape[1] != PREDICTED or len(top) != len(tails):
        raise InputError(f"predictions of shape {top.shape} for {len(tails)} tails; give {PREDICTED} for each")
    ordered = np.sort(top, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        return {"mrr": 0.0}
    hit = top == np.asarray(tails)[:, None]
    return {"mrr": float((hit / np.arange(1, PREDICTED + 1)).sum(axis=1).mean()) if len(top) else float("nan")}
