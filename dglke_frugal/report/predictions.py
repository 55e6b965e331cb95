"""The section of example predictions: test triples, and what the model answers instead of their tails."""
from __future__ import annotations

from html import escape
from typing import List, Set

import numpy as np

from ..evaluation import EmbeddingModel, KnownTriples
from ..inference.completion import best_triples
from .charts import short_label
from .html import section, table
from .trained import Trained

EXAMPLES, ANSWERS = 8, 5
MOST_ENTITIES = 5_000_000  # beyond which answering takes too long for a page


def predictions_section(trained: Trained, name: str) -> str:
    """Examples from the test triples, ranked as an evaluation does: other known answers are left out.

    Nothing where there are no test triples, or no tables.
    """
    run, graph = trained.run, trained.graph
    if run is None or graph is None or graph.test is None or not len(graph.test) or graph.n_entities > MOST_ENTITIES:
        return ""
    drawn = np.random.default_rng(0).choice(len(graph.test), min(len(graph.test), EXAMPLES), replace=False)
    heads, relations, tails = (column[np.sort(drawn)] for column in graph.test)
    known, lines = KnownTriples(graph.splits.values()).tails(heads, relations), []
    for number, (head, relation, tail) in enumerate(zip(heads.tolist(), relations.tolist(), tails.tolist())):
        others = {*known.of(number).tolist()} - {tail}
        answers = []
        for answer in _best(run.model, head, relation, others, graph.n_entities):
            kind, message = ("held", "the right answer") if answer == tail else ("", "not in the graph")
            answers.append(f'<span class="answer {kind}" title="{message}">{escape(trained.entity(answer))}</span>')
        question = f"{escape(trained.entity(head))} &mdash; {escape(short_label(trained.relation(relation)))}"
        lines.append(f"<tr><td>{question}</td><td>{escape(trained.entity(tail))}</td><td>{' '.join(answers)}</td></tr>")
    which = (f"{EXAMPLES} test triples drawn at random" if len(graph.test) > EXAMPLES else "The test triples")
    note = (f'{which}, and the {ANSWERS} best tails of each, filtered: other answers of train, valid and test are left '
            'out. <span class="answer held">the right answer</span> <span class="answer">not in the graph</span>')
    return section("Example predictions", name,
                   table(("head and relation", "tail", f"the {ANSWERS} best"), lines, "wide texts"), note)


def _best(model: EmbeddingModel, head: int, relation: int, left_out: Set[int], entities: int) -> List[int]:
    """The best tails, without the excluded ones."""
    asked = min(entities, ANSWERS + len(left_out))
    best = best_triples(model, np.array([head]), np.array([relation]), np.arange(entities), "batch_head", asked)
    return [answer for answer in best[0].tails.tolist() if answer not in left_out][:ANSWERS]
