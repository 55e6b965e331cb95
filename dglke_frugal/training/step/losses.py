"""The losses of steps, as a run reports them."""
from __future__ import annotations

from dataclasses import dataclass

NAMES = ("positive", "negative", "regularization", "total")


@dataclass(frozen=True)
class Losses:
    """The report of a step, as _native.StepLosses: means over its positives. total is differentiated; relation,
    without its weight, is that of relation prediction."""

    positive: float
    negative: float
    regularization: float
    total: float
    relation: float = 0.0


class LossSums:
    """Sums losses of steps on the host, as a device does on its own (DeviceStep.take_losses)."""

    def __init__(self):
        self._sums, self._steps = [0.0] * len(NAMES), 0

    def add(self, losses) -> None:
        """losses: Losses or _native.StepLosses of one step."""
        self._sums = [total + getattr(losses, name) for total, name in zip(self._sums, NAMES)]
        self._steps += 1

    def take_losses(self) -> Losses:
        """Means over the steps since the last call."""
        means = [total / max(1, self._steps) for total in self._sums]
        self.__init__()
        return Losses(*means)
