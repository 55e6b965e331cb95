"""A map of entities: a sample of rows on their two principal components, coloured by degree and by relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..data import KnowledgeGraph
from .charts import COLOURS
from .trained import Namer, Trained

ENTITIES = 1500  # on the map
SHADES = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#e0c81c")  # dark to light, as in matplotlib's viridis
REST = "#bbbbbb"
BLOCK = 1 << 22  # triples counted at a time


@dataclass(frozen=True)
class ColouredMap:
    """Points (n, 2), their groups (n,) as indices into `legend` of (label, colour), and what each point is called."""

    title: str
    points: np.ndarray
    groups: np.ndarray
    legend: List[Tuple[str, str]]
    labels: Sequence[str]


@dataclass(frozen=True)
class EntityMap:
    """entities: of the table, of which maps may show a part. explained: shares of their variance on the two axes."""

    entities: int
    explained: Tuple[float, float]
    maps: List[ColouredMap]


def principal_components(rows: np.ndarray) -> Tuple[np.ndarray, Tuple[float, float]]:
    """Coordinates (n, 2) of rows (n, d) on the axes of largest variance, and their shares of it.

    The sign of an axis is arbitrary; here the entry of the axis with the largest magnitude is positive.
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2][np.arange(len(axes[:2])), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    points = np.zeros((len(rows), 2))
    points[:, : len(axes)] = centred @ axes.T
    shares = [*(values**2 / max(float((values**2).sum()), 1e-300)), 0.0, 0.0]
    return points, (float(shares[0]), float(shares[1]))


def map_entities(trained: Trained) -> Optional[EntityMap]:
    """The map of a run; None if its tables cannot be read or drawn. Without a graph the points have one colour."""
    if trained.run is None:
        return None
    table, graph = trained.run.model.entity, trained.graph
    chosen = np.sort(np.random.default_rng(0).choice(len(table), min(len(table), ENTITIES), replace=False))
    rows = np.asarray(table[chosen])
    if len(rows) < 3 or not np.isfinite(rows).all():
        return None
    points, explained = principal_components(rows)
    names = list(map(trained.entity, chosen.tolist()))
    if graph is None:
        plain = ColouredMap("Entities", points, np.zeros(len(points), int), [("entity", COLOURS[0])], names)
        return EntityMap(len(table), explained, [plain])
    degrees, relation = _degree_and_relation(graph, chosen)
    labels = [f"{name}, {degree:,} triples" for name, degree in zip(names, degrees.tolist())]
    by_degree = ColouredMap("By degree", points, *_degree_groups(degrees), labels)
    groups = _relation_groups(relation, trained.relation)
    by_relation = ColouredMap("By most frequent relation", points, *groups, labels)
    return EntityMap(len(table), explained, [by_degree, by_relation])


def _degree_and_relation(graph: KnowledgeGraph, chosen: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Training triples of each chosen entity, and its most frequent relation in them, -1 where it has none."""
    place = np.full(graph.n_entities, -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    pairs: Dict[str, np.ndarray] = {"key": np.empty(0, np.int64), "count": np.empty(0, np.int64)}
    for begin in range(0, len(graph.train), BLOCK):
        part = slice(begin, begin + BLOCK)
        relation = graph.train.relation[part].astype(np.int64)
        keys = [where[where >= 0] * np.int64(graph.n_relations) + relation[where >= 0]
                for where in (place[graph.train.head[part]], place[graph.train.tail[part]])]
        key, count = np.unique(np.concatenate(keys), return_counts=True)
        key, inverse = np.unique(np.concatenate([pairs["key"], key]), return_inverse=True)
        total = np.bincount(inverse, np.concatenate([pairs["count"], count]), len(key)).astype(np.int64)
        pairs = {"key": key, "count": total}
    entity, relation = np.divmod(pairs["key"], graph.n_relations)
    degrees = np.bincount(entity, pairs["count"], len(chosen)).astype(np.int64)
    most = np.full(len(chosen), -1, np.int64)
    order = np.argsort(pairs["count"], kind="stable")  # the last one written to an entity is its most frequent
    most[entity[order]] = relation[order]
    return degrees, most


def _degree_groups(degrees: np.ndarray):
    """About equally many entities of neighbouring degrees in each group."""
    edges = np.unique(np.quantile(degrees, np.linspace(0, 1, len(SHADES) + 1)[1:-1], method="lower"))
    groups = np.searchsorted(edges, degrees, side="left")
    used = np.unique(groups)
    legend = []
    for group in used:
        inside = degrees[groups == group]
        legend.append(f"{inside.min():,}" if inside.min() == inside.max() else f"{inside.min():,} to {inside.max():,}")
    shades = [SHADES[i * (len(SHADES) - 1) // max(1, len(used) - 1)] for i in range(len(used))]
    return np.searchsorted(used, groups), list(zip(legend, shades))


def _relation_groups(relation: np.ndarray, name_of: Namer):
    """The relations that are most often the most frequent have colours of their own."""
    present, counts = np.unique(relation[relation >= 0], return_counts=True)
    shown = present[np.argsort(-counts, kind="stable")][: len(COLOURS)]
    groups = np.full(len(relation), len(shown))
    for number, value in enumerate(shown):
        groups[relation == value] = number
    labels = map(name_of, shown.tolist())
    return groups, [*zip(labels, COLOURS), ("others", REST)]
