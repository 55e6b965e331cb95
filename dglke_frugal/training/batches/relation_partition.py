"""Dividing the training edges over ranks by relation, so that most relations are trained by one rank alone."""

from __future__ import annotations

import numpy as np

from ...errors import InputError


LARGE = 0.05  # share of the edges


def edges_of_rank(rank_of_edge: np.ndarray, rank: int) -> np.ndarray:
    """Indices of the rank's edges, ascending; int32 where that suffices. rank_of_edge: (E,)."""
    narrow = len(rank_of_edge) <= np.iinfo(np.int32).max
    return np.flatnonzero(rank_of_edge == rank).astype(np.int32 if narrow else np.int64, copy=False)


def partition_by_relation(relation: np.ndarray, num_relations: int, ranks: int) -> np.ndarray:
    """Divide edges over ranks as DGL-KE's --rel_part does: (E,) uint16, which rank trains each edge.

    A relation with more than a LARGE share of the edges, or more than a rank's equal share, is dealt out evenly to
    all ranks. Every other one goes whole to the rank that has the fewest edges so far, the most frequent relations
    first.

    Args:
        relation: (E,) integer relation id of each edge.
    Raises:
        InputError: if a rank would be left without edges, or a relation id is out of range.
    """
    edges = len(relation)
    if not 1 <= ranks <= np.iinfo(np.uint16).max:
        raise InputError(f"edges cannot be divided over {ranks} ranks; use 1 to {np.iinfo(np.uint16).max}")
    if edges and not 0 <= relation.min() <= relation.max() < num_relations:
        raise InputError(f"a relation id is not in [0, {num_relations}); check the relation map")
    count = np.bincount(relation, minlength=num_relations)
    threshold = min(int(edges * LARGE), edges // ranks)
    shared = np.flatnonzero(count > threshold) if ranks > 1 else np.empty(0, np.int64)

    # Dealing out in turn keeps each rank's share of a large relation a sample of it, however the file is sorted.
    load = np.zeros(ranks, np.int64)
    dealt = []
    for relation_id in shared:
        positions = np.flatnonzero(relation == relation_id)
        turn = (np.arange(len(positions)) + int(load.argmin())) % ranks
        dealt.append((positions, turn))
        load += np.bincount(turn, minlength=ranks)

    rank_of_relation = np.zeros(num_relations, np.uint16)
    whole = count.copy()
    whole[shared] = 0
    for relation_id in np.argsort(-whole, kind="stable"):
        if whole[relation_id] == 0:
            break
        rank = int(load.argmin())
        rank_of_relation[relation_id] = rank
        load[rank] += whole[relation_id]
    if not load.all():
        raise InputError(f"{edges} edges of {np.count_nonzero(count)} relations leave a rank of {ranks} without edges; "
                         "use fewer processes or no --rel_part")

    rank_of_edge = rank_of_relation[relation]
    for positions, turn in dealt:
        rank_of_edge[positions] = turn
    return rank_of_edge
