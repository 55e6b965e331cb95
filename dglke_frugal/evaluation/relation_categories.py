"""Relations as 1-1, 1-N, N-1 or N-N, after Bordes et al., "Translating Embeddings" (NIPS 2013), section 4.3."""
from __future__ import annotations

from typing import List

import numpy as np

CATEGORIES = ("1-1", "1-N", "N-1", "N-N")
MANY = 1.5  # entities on average, from which on a side counts as N


def relation_categories(head: np.ndarray, relation: np.ndarray, tail: np.ndarray, n_relations: int) -> List[str]:
    """A category of CATEGORIES for each relation; "" for one without triples.

    head, relation, tail: (n,) integers, the training triples; a triple that occurs twice counts once. A relation's
    first letter is N if a (relation, tail) has MANY heads or more on average, its second if a (head, relation) has as
    many tails.
    """
    relation = relation.astype(np.int64)
    with_head = _pairs(relation, head)
    with_tail = _pairs(relation, tail)
    triples = np.unique(np.stack([with_head[1], tail]), axis=1)[0]  # distinct ones, by their pair of relation and head
    count = np.bincount(with_head[0][triples], minlength=n_relations)
    heads, tails = (np.bincount(relations, minlength=n_relations) for relations, _ in (with_head, with_tail))
    found = []
    for number in range(n_relations):
        if not count[number]:
            found.append("")
            continue
        many_heads, many_tails = count[number] >= MANY * tails[number], count[number] >= MANY * heads[number]
        found.append(f"{'N' if many_heads else '1'}-{'N' if many_tails else '1'}")
    return found


def _pairs(relation: np.ndarray, entity: np.ndarray):
    """The relation of each distinct (relation, entity), and which of them each triple has."""
    span = int(entity.max(initial=0)) + 1
    keys, which = np.unique(relation * span + entity, return_inverse=True)
    return keys // span, which
