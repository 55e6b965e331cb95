"""Ranks, and the numbers and log lines made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence

import numpy as np

from ..arguments import one_of
from ..errors import InputError

RANK_TIES = ("pessimistic", "realistic", "optimistic")


def ranks(better: np.ndarray, equal: np.ndarray, ties: str = "pessimistic") -> np.ndarray:
    """Ranks (n,) float64 from the numbers of candidates with a better and with an equal score.

    pessimistic counts an equal candidate as better (DGL-KE's rule), optimistic as worse, realistic as half of each
    (the mean of both ranks, which is OGB's rule). Raises InputError for another rule.
    """
    one_of("rule for ties", ties, RANK_TIES)
    weight = {"pessimistic": 1.0, "realistic": 0.5, "optimistic": 0.0}[ties]
    return 1.0 + better + weight * equal


@dataclass(frozen=True)
class Metrics:
    """Mean reciprocal rank, mean rank, and the shares of ranks that are at most 1, 3 and 10."""

    mrr: float
    mr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    count: int  # ranks that were averaged

    @classmethod
    def of(cls, ranks: Sequence[np.ndarray]) -> "Metrics":
        """Averages over several arrays of ranks, in order.

        Sums run from left to right in float64 as DGL-KE's do, so that equal ranks print as equal digits.

        Raises InputError: no list of arrays (n,), or a rank that is no number of at least 1.
        """
        try:
            values = np.concatenate([np.asarray(array, dtype=np.float64) for array in ranks])
        except (TypeError, ValueError):
            raise InputError("Metrics.of takes a list of arrays of ranks, such as [evaluation.ranks('head')]") from None
        if values.ndim != 1 or not (values >= 1).all():
            raise InputError("ranks are arrays of one dimension, of numbers of at least 1")
        if not len(values):
            nan = float("nan")
            return cls(nan, nan, nan, nan, nan, count=0)

        def mean(numbers):
            return float(np.add.accumulate(numbers, dtype=np.float64)[-1]) / len(values)

        return cls(mean(1.0 / values),
                   mean(values),
                   mean(values <= 1),
                   mean(values <= 3),
                   mean(values <= 10),
                   count=len(values))

    def named(self) -> Dict[str, float]:
        """The metrics under DGL-KE's names, in its order."""
        return {"MRR": self.mrr, "MR": self.mr, "HITS@1": self.hits_at_1, "HITS@3": self.hits_at_3,
                "HITS@10": self.hits_at_10}


def process_lines(metrics: Metrics, mode: str) -> List[str]:
    """The lines DGL-KE prints from one process; scripts parse them. mode is Valid or Test."""
    return [f"[0]{mode} average {name}: {value}" for name, value in metrics.named().items()]
