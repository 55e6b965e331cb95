"""Metrics by relation and direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from .metrics import Metrics
from .model import SIDES

if TYPE_CHECKING:
    from .protocol import Evaluation


@dataclass(frozen=True)
class BreakdownRow:
    """Metrics of the triples of one relation (None: all) in one direction (None: both)."""

    relation: Optional[int]
    side: Optional[str]
    metrics: Metrics

    def as_dict(self, names: Optional[Sequence[str]] = None) -> Dict:
        """As plain data, under DGL-KE's names of the metrics. names: of the relations, by id."""
        name = {} if names is None or self.relation is None else {"name": names[self.relation]}
        return {"relation": self.relation, **name, "side": self.side, "ranks": self.metrics.count,
                **self.metrics.named()}


def by_relation(evaluation: Evaluation) -> List[BreakdownRow]:
    """Both directions over all relations, then each relation that occurs, most frequent first, in each direction."""
    ranks = {side: evaluation.ranks(side) for side in SIDES}
    rows = [BreakdownRow(None, side, Metrics.of([ranks[side]])) for side in SIDES]
    for relation, members in _members(evaluation.triples[1]).items():
        rows += [BreakdownRow(relation, side, Metrics.of([ranks[side][members]])) for side in SIDES]
    return rows


def _members(relations: np.ndarray) -> Dict[Any, Any]:
    """By relation, most frequent first, the numbers of its triples; relations: of each triple."""
    present, counts = np.unique(relations, return_counts=True)
    members = np.split(np.argsort(relations, kind="stable"), np.cumsum(counts)[:-1])
    return {int(present[i]): members[i] for i in np.argsort(-counts, kind="stable")}


def columns_by_relation(evaluation: Evaluation, ks: Sequence[int]) -> Dict[str, List[Any]]:
    """Columns relation (name, id where there are none, "all" for all), side ("both", "head", "tail"), ranks (how many),
    MRR, MR, AMRI and HITS@k for each k: a row for all triples, then for each relation that occurs, most frequent
    first, in each direction and both."""
    ranks = np.stack([evaluation.ranks(side) for side in SIDES])
    candidates, names = evaluation.candidate_counts(), evaluation.relation_names
    columns: Dict[str, List[Any]] = {}
    for relation, of_relation in {"all": slice(None), **_members(evaluation.triples[1])}.items():
        for side, rows in (("both", slice(None)), *((side, slice(i, i + 1)) for i, side in enumerate(SIDES))):
            here = ranks[rows][:, of_relation]
            row = {"relation": relation if names is None or relation == "all" else names[relation], "side": side,
                   "ranks": here.size,
                   **numbers(here, None if candidates is None else candidates[rows][:, of_relation], ks)}
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    return columns


def numbers(ranks: np.ndarray, candidates: Optional[np.ndarray], ks: Sequence[int]) -> Dict[str, float]:
    """MRR, MR, AMRI and HITS@k for each k of ranks, arrays of any shape; NaN of no ranks.

    candidates: of each rank, the true entity counted; None where they are not known, and AMRI is NaN. The adjusted mean
    rank index (Berrendorf et al. 2020) is 1 - (MR - 1) / (E - 1), where E is the MR of random ranks: 0 for them, 1 for
    the best.
    """
    metrics = Metrics.of([row for row in ranks])
    expected = float("nan") if candidates is None or not ranks.size else float(np.mean((candidates + 1) / 2)) - 1
    return {"MRR": metrics.mrr, "MR": metrics.mr,
            "AMRI": 1 - (metrics.mr - 1) / expected if expected > 0 else float("nan"),
            **{f"HITS@{k}": float(np.mean(ranks <= k)) if ranks.size else float("nan") for k in ks}}


def table_text(rows: Sequence[BreakdownRow], names: Optional[Sequence[str]] = None) -> str:
    """The rows as a text table; `names` are those of the relations, by id."""
    lines = [
        f"{'relation':<60} {'side':<5} {'ranks':>8} {'MRR':>8} {'MR':>10} {'HITS@1':>7} {'HITS@3':>7} {'HITS@10':>7}"]
    for row in rows:
        name = "all" if row.relation is None else names[row.relation] if names else str(row.relation)
        m = row.metrics
        lines.append(f"{name[-60:]:<60} {row.side or 'both':<5} {m.count:>8} {m.mrr:>8.4f} {m.mr:>10.2f} "
                     f"{m.hits_at_1:>7.4f} {m.hits_at_3:>7.4f} {m.hits_at_10:>7.4f}")
    return "\n".join(lines)
