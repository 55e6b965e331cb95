"""The interface of a training run to a step, whatever computes it."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Dict, Optional

import numpy as np

from ... import _native
from .losses import Losses, LossSums


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
        """Those of them that are finite unless the training has diverged."""
        return {}


class HostStep(Step):
    """One that has its losses at once."""

    def __init__(self):
        self._sums = LossSums()

    def run_rows(self, batch, *tables):
        losses = self._train(batch, *tables)
        self._sums.add(losses)
        return losses

    @abstractmethod
    def _train(self, batch: _native.Batch, *tables: _native.StepRows) -> Losses:
        """run_rows, whose losses are then counted."""

    def take_losses(self):
        return self._sums.take_losses()
