"""A graph of few relations and of skewed degrees, as most people have: what takes long on it, FB15k does not show."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dglke_frugal.data.graph import Triples
from dglke_frugal.data.synthetic import SyntheticGraph

HEADS = 121_000
RELATION_SHARES = (0.42, 0.21, *[0.005] * 74)
TAIL_POWER = 2.75  # by which the most frequent of two million tails has .5 % of the triples


@dataclass(frozen=True)
class SkewedGraph(SyntheticGraph):
    """One relation has 42 % of the triples and one 21 %; few entities are heads."""

    n_entities: int = 2_260_000
    n_relations: int = len(RELATION_SHARES)
    n_train: int = 4_200_000
    n_valid: int = 1000
    n_test: int = 1000
    name: str = "skewed"

    def triples(self, begin: int, end: int) -> Triples:
        """Triples begin .. end - 1, int32; another division into ranges gives other triples."""
        random, count = np.random.default_rng(begin), end - begin
        return Triples(*(column.astype(np.int32) for column in (
            random.integers(0, HEADS, count), random.choice(self.n_relations, count, p=RELATION_SHARES),
            HEADS + (self.n_entities - HEADS) * random.random(count) ** TAIL_POWER)))
