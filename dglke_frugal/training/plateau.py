"""A learning rate that falls when validation no longer gets better."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional


class Plateau:
    """Multiplies a learning rate by `factor` when `patience` validations in a row have not been better than all before.

    Attributes:
        patience: 0 for never.
        learning_rate: of the coming steps.
    """

    def __init__(self, patience: int, factor: float, learning_rate: float):
        self.patience, self._factor, self.learning_rate = patience, factor, learning_rate
        self._waited = 0  # validations since the best one, or since the rate has last been lowered

    def validated(self, better: bool) -> bool:
        """Take in a validation; returns whether the rate has been lowered. better: than all before."""
        self._waited = 0 if better else self._waited + 1
        if not self.patience or self._waited < self.patience:
            return False
        self.learning_rate *= self._factor
        self._waited = 0
        return True

    def state(self) -> Dict[str, Any]:
        """As JSON, for a checkpoint."""
        return {"learning_rate": self.learning_rate, "waited": self._waited}

    def restore(self, state: Optional[Mapping[str, Any]]) -> bool:
        """Go on from a checkpoint's state, None of a run without any; returns whether the rate is another one now."""
        if state is None:
            return False
        before, self.learning_rate, self._waited = self.learning_rate, state["learning_rate"], state["waited"]
        return self.learning_rate != before
