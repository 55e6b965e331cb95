"""A learning rate that falls: after given steps, and when several validations bring no better MRR."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence


class LearningRate:
    """Multiplied by `factor` after each step of `decay_at`, and when `patience` validations in a row have not been
    better than all before.

    Attributes:
        patience: 0 for never.
        now: the rate of the coming steps.
    """

    def __init__(self, first: float, factor: float, patience: int = 0, decay_at: Sequence[int] = ()):
        self.patience, self._factor, self._decay_at, self.now = patience, factor, frozenset(decay_at), first
        self._waited = 0  # validations since the best one, or since the rate has last been lowered for them

    def trained(self, steps: int) -> bool:
        """Count steps that are done; returns whether the rate has been lowered."""
        lowered = steps in self._decay_at
        if lowered:
            self.now *= self._factor
        return lowered

    def validated(self, better: bool) -> bool:
        """Use a validation; returns whether the rate has been lowered. better: than all before."""
        self._waited = 0 if better else self._waited + 1
        if not self.patience or self._waited < self.patience:
            return False
        self.now *= self._factor
        self._waited = 0
        return True

    def state(self) -> Dict[str, Any]:
        """As JSON, for a checkpoint."""
        return {"learning_rate": self.now, "waited": self._waited}

    def restore(self, state: Optional[Mapping[str, Any]], steps: int) -> bool:
        """Go on after so many steps from a checkpoint's state, None of a run without patience; returns whether the rate
        is another one now."""
        before = self.now
        if state is None:
            for _ in range(sum(step <= steps for step in self._decay_at)):
                self.now *= self._factor
        else:
            self.now, self._waited = state["learning_rate"], state["waited"]
        return self.now != before
