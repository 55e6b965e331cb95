"""The step of csrc/step, which computes on the processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Optional

from ... import _native
from .step import HostStep
from .step_config import StepConfig


class NativeStep(HostStep):
    """Trains by a _native.TrainStep.

    early_done: called in each step when its relations are done, and the entities that others wait for.
    """

    early_done: Optional[Callable[[], None]] = None

    def __init__(self, config: StepConfig, threads: Optional[int] = None):
        """threads: as for native_step."""
        super().__init__()
        self._config, self._threads = config, threads
        self._native = native_step(config, threads)

    def _train(self, batch, *tables):
        return self._native.run_rows(batch, *tables, early_done=self.early_done)

    def set_learning_rate(self, rate):
        self._config = replace(self._config, learning_rate=rate)
        self._native = native_step(self._config, self._threads)  # it keeps nothing from one step to the next


def native_step(config: StepConfig, threads: Optional[int] = None):
    """The _native.TrainStep that computes `config`, on `threads` threads (default: as many as CPU kernels use).

    Raises ValueError if the dimensions do not fit the model, or for less than one thread.
    """
    return _native.TrainStep(config, _native.num_threads() if threads is None else threads)
