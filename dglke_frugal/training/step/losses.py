"""The losses of steps, as a run reports them."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Losses:
    """The report of a step, as _native.StepLosses: means over its positives. total is differentiated; relation,
    without its weight, is that of relation prediction."""

    positive: float
    negative: float
    regularization: float
    total: float
    relation: float = 0.0
