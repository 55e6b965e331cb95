"""The triples that a run's data set holds, which are no news as answers (--exclude_known)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Mapping

import numpy as np

from ..data import KnowledgeGraph, load_graph
from ..data.fingerprint import Fingerprint
from ..errors import InputError
from ..evaluation import KnownTriples
from ..evaluation.best_rows import Found
from ..evaluation.known_triples import KnownAnswers, Lists

_LOOKED_UP_TOGETHER = 1 << 22


def graph_of_run(folder: Path, config: Mapping[str, Any], entities: int, relations: int) -> KnowledgeGraph:
    """The data set that a run was trained on, found by its config.json.

    entities, relations: rows of its tables. Raises InputError if the data set is not there, or has other entities.
    """
    given: Dict[str, Any] = {name: config.get(name) or default for name, default in
             (("data_path", "data"), ("format", "built_in"), ("data_files", None), ("delimiter", "\t"),
              ("has_edge_importance", False))}
    try:
        graph = load_graph(config["dataset"], given["data_path"], given["format"], given["data_files"],
                           given["delimiter"], given["has_edge_importance"])
    except InputError as error:
        # The reader's advice names flags of the training.
        reason = str(error).partition("; check --")[0]
        raise InputError(f"known triples are those of the data set that {folder} was trained on, which cannot be read: "
                         f"{reason}; give its folder, load(..., data_path=...), or correct data_path in "
                         f"{folder / 'config.json'}") from error
    if (graph.n_entities, graph.n_relations) != (entities, relations):
        raise InputError(
            f"the data set {graph.name} in {given['data_path']} has {graph.n_entities:,} entities and "
            f"{graph.n_relations:,} relations, but {folder} was trained on {entities:,} and {relations:,}; put the "
            "files back that it was trained on")
    changed = Fingerprint.of(graph).difference(Fingerprint.of_mapping(config.get("data")))
    if changed:
        raise InputError(f"known triples are those of the data set that {folder} was trained on, which has changed: "
                         f"{changed}; put the files back that they were")
    return graph


def are_known(known: KnownTriples, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Which of the triples (n,) are known: (n,) bool."""
    everyone = np.arange(len(heads))
    return KnownAnswers("tail", heads, relations, known).contain(everyone, tails[:, None])[:, 0]


class KnownOfPairs:
    """The known answers to the combinations of entities and relations, which are numbered: entity by entity.

    A few million are looked up together, since that takes a pass over all triples; of more, the ones that are asked
    for.
    """

    def __init__(self, known: KnownTriples, side: str, stays: np.ndarray, relations: np.ndarray):
        """side: the place of the answers. stays, relations: ids of what is given."""
        self._known, self._side, self._stays, self._relations = known, side, stays, relations
        count = len(stays) * len(relations)
        self._all = self._find(np.arange(count)) if count <= _LOOKED_UP_TOGETHER else None

    def of(self, pairs: np.ndarray) -> Lists:
        """The answers to the combinations of these numbers."""
        if self._all is not None:
            return self._all.of(pairs)
        return self._find(pairs).of(np.arange(len(pairs)))

    def _find(self, pairs: np.ndarray) -> KnownAnswers:
        entities, relations = np.divmod(pairs, len(self._relations))
        return KnownAnswers(self._side, self._stays[entities], self._relations[relations], self._known)


def best_unknown(answers: Lists, moves: np.ndarray, entities: int, k: int,
                 search: Callable[[np.ndarray, int], Found]) -> Found:
    """At least the k best answers to each query that are not known, and perhaps a few more.

    So many more are searched as are known: of k + n best answers at most n are known. Queries with few known answers
    and with many are searched apart, so that one entity with a million does not make the others slow.

    Args:
        answers: the known ones of each query, q of them.
        moves: (m,) entity ids that may be answers; duplicates are answers of their own.
        entities: how many there are.
        search: (numbers of queries, count) -> the count best of each as Found; its queries count from 0.
    """
    times = np.bincount(moves, minlength=entities)[answers.items]
    counts = np.diff(np.append(0, np.cumsum(times))[answers.pointers])
    known_keys = np.repeat(np.arange(len(counts)), np.diff(answers.pointers)) * entities + answers.items  # ascending
    magnitude = np.frexp(counts.astype(np.float64))[1]
    parts = []
    for size in np.unique(magnitude):
        queries = np.flatnonzero(magnitude == size)
        found = search(queries, k + int(counts[queries].max()))
        query = queries[found.query]
        new = _is_missing(query * entities + moves[found.row], known_keys)
        parts.append(Found(query[new], found.row[new], found.score[new]))
    return Found.joined(parts)


def _is_missing(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    if not len(ascending):
        return np.ones(len(keys), bool)
    return ascending[np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)] != keys
