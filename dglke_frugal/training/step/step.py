"""The interface of a training run to a step, whatever computes it."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Dict, Optional

import numpy as np

from ... import _native
from .losses import Losses

REPORTED = ("positive", "negative", "regularization", "total")
STEPS_AT_ONCE = 64  # whose losses are added together


class Step(ABC):
    """Trains on batches, one after the other, with the running step's rows of the store."""

    @abstractmethod
    def run_rows(self, batch: _native.Batch, *tables) -> Optional[Losses]:
        """Train on the rows of `batch`: entities, relations and, for TransR, projections, as `steps` of their stores.

        Returns the losses (Losses or _native.StepLosses), or None where a device sums them.
        """

    @abstractmethod
    def take_losses(self) -> Losses:
        """Means over the steps since the last call. Waits for the device if the losses are there."""

    @abstractmethod
    def set_learning_rate(self, rate: float) -> None:
        """Of the coming steps; between two steps."""

    def pack_ahead(self, sampler, announced: int, *tables) -> Optional[_native.BatchPacker]:
        """A function that packs the full batches of `sampler` for a device where they are made, or None.

        announced: steps that are announced at a time. tables: as for run_rows.
        """
        return None

    def state_arrays(self) -> Dict[str, np.ndarray]:
        """The step's own parameters without the rows, as flat arrays that may be written to."""
        return {}

    def trained_arrays(self) -> Dict[str, np.ndarray]:
        """The part of state_arrays that is finite unless the training has diverged."""
        return {}


class HostStep(Step):
    """A step that has its losses at once, and sums them on the host."""

    def __init__(self):
        self._sums, self._steps = [0.0] * len(REPORTED), 0
        self._new = []  # between two steps everything takes long, for it has left the processor's caches

    def run_rows(self, batch, *tables):
        losses = self._train(batch, *tables)
        self._new.append(losses)
        if len(self._new) == STEPS_AT_ONCE:
            self._add_new()
        return losses

    def _add_new(self) -> None:
        for name_at, name in enumerate(REPORTED):
            for losses in self._new:
                self._sums[name_at] += getattr(losses, name)
        self._steps += len(self._new)
        self._new.clear()

    @abstractmethod
    def _train(self, batch: _native.Batch, *tables: _native.StepRows) -> Losses:
        """As run_rows, which then adds the losses to the sums."""

    def take_losses(self):
        self._add_new()
        means = [total / max(1, self._steps) for total in self._sums]
        self._sums, self._steps = [0.0] * len(REPORTED), 0
        return Losses(*means)
