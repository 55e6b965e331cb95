"""The section of example predictions: held-out triples, and what the model answers instead of their tails."""
from __future__ import annotations

from html import escape
from typing import Set

import numpy as np

from ..data import KnowledgeGraph
from ..inference.completion import best_triples
from .charts import short_label
from .html import section, table
from .trained import Trained

EXAMPLES, ANSWERS = 8, 5
MOST_ENTITIES = 5_000_000  # beyond which answering takes too long for a page


def predictions_section(trained: Trained, name: str) -> str:
    """Examples drawn at random from the test triples; nothing where there are none, or no tables."""
    run, graph = trained.run, trained.graph
    if run is None or graph is None or graph.test is None or not len(graph.test) or graph.n_entities > MOST_ENTITIES:
        return ""
    drawn = np.random.default_rng(0).choice(len(graph.test), min(len(graph.test), EXAMPLES), replace=False)
    everything, lines = np.arange(graph.n_entities), []
    for place in np.sort(drawn).tolist():
        head, relation, tail = (int(column[place]) for column in (graph.test.head, graph.test.relation, graph.test.tail))
        trained_on, held_out = _tails(graph, ("train",), head, relation), _tails(graph, ("valid", "test"), head, relation)
        best = best_triples(run.model, np.array([head]), np.array([relation]), everything, "batch_head", ANSWERS)
        answers = []
        for answer in best[0].tails.tolist():
            kind, said = (("held", "held out: right") if answer in held_out else
                          ("known", "in the training triples") if answer in trained_on else ("", "not in the graph"))
            answers.append(f'<span class="answer {kind}" title="{said}">{escape(trained.entity(answer))}</span>')
        question = f"{escape(trained.entity(head))} &mdash; {escape(short_label(trained.relation(relation)))}"
        lines.append(f"<tr><td>{question}</td><td>{escape(trained.entity(tail))}</td><td>{' '.join(answers)}</td></tr>")
    note = ('Test triples drawn at random, and the five best tails of each, unfiltered: '
            '<span class="answer held">held out, right</span> <span class="answer known">in the training triples</span> '
            '<span class="answer">not in the graph</span>')
    return section("Example predictions", name,
                   table(("head and relation", "tail", f"the {ANSWERS} best"), lines, "wide texts"), note)


def _tails(graph: KnowledgeGraph, splits, head: int, relation: int) -> Set[int]:
    found: Set[int] = set()
    for split in splits:
        triples = graph.splits.get(split)
        if triples is not None:
            found.update(triples.tail[(triples.head == head) & (triples.relation == relation)].tolist())
    return found
