"""The sections by relation: categories (1-1 ... N-N), and the most frequent relations one by one."""
from __future__ import annotations

import shlex
from html import escape
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..evaluation.relation_categories import CATEGORIES, relation_categories
from .charts import short_label
from .html import cell, section, table
from .run_log import EVALUATION_FILE, RunLog
from .svg import legend
from .trained import Trained

SHOWN = 40
MOST_TRIPLES = 50_000_000  # beyond which relations are not put into categories: it sorts all training triples
COLOUR_OF_SIDE: Tuple[str, str] = ("#0072b2", "#d55e00")
HEADS = ("triples", "MRR, heads", "MRR, tails", "", "HITS@10, heads", "HITS@10, tails")
Sides = Dict[Optional[str], Dict[str, Any]]


def relations_section(run: RunLog, trained: Trained, name: str) -> str:
    """The metrics by relation in the run's evaluation.json, or the command that writes one, where it can."""
    if not run.by_relation:
        note = "Not evaluated by relation."
        if trained.run is not None and (trained.graph is None or trained.graph.test):
            command = shlex.join(["dglke_eval", "--model_path", str(run.folder), "--breakdown", "--json",
                                  str(run.folder / EVALUATION_FILE)])
            note += f" This does it: <code>{escape(command)}</code>"
        return section("Relations", name, "", note)
    rows: Dict[Optional[int], Sides] = {}
    for row in run.by_relation:
        rows.setdefault(row.get("relation"), {})[row.get("side")] = row
    lines = [_line("all" if relation is None else trained.relation(relation), sides)
             for relation, sides in list(rows.items())[: SHOWN + 1]]
    more = len(rows) - 1 - SHOWN
    note = f"The {SHOWN} most frequent of {len(rows) - 1} relations." if more > 0 else ""
    key = legend([("finding heads", COLOUR_OF_SIDE[0]), ("finding tails", COLOUR_OF_SIDE[1])])
    return (_categories(rows, trained, name)
            + section("Relations", name, key + table(("relation", *HEADS), lines, "wide", sortable=True), note))


def _categories(rows: Dict[Optional[int], Sides], trained: Trained, name: str) -> str:
    graph = trained.graph
    if graph is None or len(graph.train) > MOST_TRIPLES:
        return ""
    category = relation_categories(graph.train.head, graph.train.relation, graph.train.tail, graph.n_relations)
    lines = []
    for wanted in CATEGORIES:
        members = [sides for relation, sides in rows.items()
                   if relation in range(graph.n_relations) and category[relation] == wanted]
        if members:
            lines.append(_line(f"{wanted} ({len(members)} relations)",
                               {side: _mean([sides[side] for sides in members if side in sides])
                                for side in ("head", "tail")}))
    note = ("A side is N if an entity and a relation have 1.5 partners or more on average in the training triples "
            "(Bordes et al. 2013): 1-N has one head and many tails.")
    return section("Relation categories", name, table(("category", *HEADS), lines, "wide"), note)


def _mean(rows: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Means over the triples of several relations."""
    ranks = sum(row["ranks"] for row in rows)
    return {"ranks": ranks, **{metric: sum(row[metric] * row["ranks"] for row in rows) / max(ranks, 1)
                               for metric in ("MRR", "HITS@10")}}


def _line(label: str, sides: Sides) -> str:
    both: List[Optional[Dict[str, Any]]] = [sides.get(side) for side in ("head", "tail")]
    bars = "<br>".join(
        f'<span class="bar" style="width:{100 * row["MRR"]:.1f}%;background:{colour}"></span>'
        for row, colour in zip(both, COLOUR_OF_SIDE) if row)
    count = max((row.get("ranks") or 0 for row in both if row), default=0)
    cells = [cell(count, "{:,}"),
             *(cell(row and row["MRR"], "{:.3f}") for row in both),
             f'<td class="bars">{bars}</td>',
             *(cell(row and row.get("HITS@10"), "{:.3f}") for row in both)]
    return f"<tr><td>{escape(short_label(label))}</td>{''.join(cells)}</tr>"
