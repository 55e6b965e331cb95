"""Metrics of a model that knows nothing, and whether a model is near them.

A true entity among n candidates, in random order, has each rank 1 .. n with probability 1 / n, so that the mean of its
reciprocal rank is (1 + 1/2 + ... + 1/n) / n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

from .known_triples import KnownAnswers, KnownTriples
from .model import SIDES, columns_of

LOOKED_AT = 0.1  # a higher MRR is never said to be near chance
FACTOR, DISTANCE = 20.0, 0.02  # near chance is an MRR below both the multiple of it, and it plus this
_EULER = 0.5772156649015329


@dataclass(frozen=True)
class Chance:
    """MRR of random ranks among as many candidates as a ranking had.

    Attributes:
        mrr: its expectation.
        near: whether the ranking's MRR is near it: below FACTOR times it, and less than DISTANCE above it.
    """

    mrr: float
    near: bool


def random_mrr(candidates: np.ndarray) -> float:
    """Expected MRR of random ranks; candidates (n,): of each rank, the true entity counted. n at least 1."""
    n = np.asarray(candidates, np.float64)
    # Euler and Maclaurin's expansion of the harmonic number, whose error is below 1 / (252 n^6).
    harmonic = np.log(n) + _EULER + 1 / (2 * n) - 1 / (12 * n**2) + 1 / (120 * n**4)
    return float(np.mean(np.where(n == 1, 1.0, harmonic / n)))


def candidate_counts(triples: Tuple, entities: int, known: Optional[KnownTriples]) -> np.ndarray:
    """(2 n,) candidates of each triple (heads, relations, tails) in both directions, the true entity counted.

    known: triples that do not compete; None if they do.
    """
    counts = np.full(len(SIDES) * len(triples[0]), entities, np.int64)
    if known is None:
        return counts
    every = np.arange(len(triples[0]))
    for number, side in enumerate(SIDES):
        stays, relations, moves = columns_of(side, triples)
        answers = KnownAnswers(side, stays, relations, known)
        # The triple itself is among its query's answers unless it is in none of the splits.
        counts[number * len(every) + every] -= answers.counts(every) - answers.contain(every, moves[:, None])[:, 0]
    return counts


def chance(mrr: float, counts: np.ndarray) -> Chance:
    """How the MRR of a ranking compares to that of random ranks; counts: as for random_mrr."""
    expected = random_mrr(counts)
    return Chance(expected, mrr < min(FACTOR * expected, expected + DISTANCE))
