"""The losses of steps, as a run reports them."""
from __future__ import annotations

from dataclasses import dataclass

NAMES = ("positive", "negative", "regularization", "total")
STEPS_AT_ONCE = 64  # whose losses are added together


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
        self._new = []  # between two steps everything takes long, for it has left the processor's caches

    def add(self, losses) -> None:
        """losses: Losses or _native.StepLosses of one step."""
        self._new.append(losses)
        if len(self._new) == STEPS_AT_ONCE:
            self._add_new()

    def _add_new(self) -> None:
        for name_at, name in enumerate(NAMES):
            for losses in self._new:
                self._sums[name_at] += getattr(losses, name)
        self._steps += len(self._new)
        self._new.clear()

    def take_losses(self) -> Losses:
        """Means over the steps since the last call."""
        self._add_new()
        means = [total / max(1, self._steps) for total in self._sums]
        self.__init__()
        return Losses(*means)
