"""Metrics by relation and direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence

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

    def as_dict(self) -> Dict:
        """As plain data, under DGL-KE's names of the metrics."""
        return {"relation": self.relation, "side": self.side, "ranks": self.metrics.count, **self.metrics.named()}


def by_relation(evaluation: Evaluation) -> List[BreakdownRow]:
    """Both directions over all relations, then each relation that occurs, most frequent first, in each direction."""
    relations = evaluation.triples[1]
    ranks = {side: evaluation.ranks(side) for side in SIDES}
    rows = [BreakdownRow(None, side, Metrics.of([ranks[side]])) for side in SIDES]
    present, counts = np.unique(relations, return_counts=True)
    order = np.argsort(relations, kind="stable")
    members = dict(zip(present.tolist(), np.split(order, np.cumsum(counts)[:-1])))
    for relation in present[np.argsort(-counts, kind="stable")].tolist():
        rows += [BreakdownRow(relation, side, Metrics.of([ranks[side][members[relation]]])) for side in SIDES]
    return rows


def table_text(rows: Sequence[BreakdownRow], names: Optional[Sequence[str]] = None) -> str:
    """The rows as a text table; `names` are those of the relations, by id."""
    lines = [
        f"{'relation':<60} {'side':<5} {'ranks':>8} {'MRR':>8} {'MR':>10} {'HITS@1':>7} {'HITS@3':>7} {'HITS@10':>7}"
    ]
    for row in rows:
        name = "all" if row.relation is None else names[row.relation] if names else str(row.relation)
        m = row.metrics
        lines.append(
            f"{name[-60:]:<60} {row.side or 'both':<5} {m.count:>8} {m.mrr:>8.4f} {m.mr:>10.2f} "
            f"{m.hits_at_1:>7.4f} {m.hits_at_3:>7.4f} {m.hits_at_10:>7.4f}"
        )
    return "\n".join(lines)
