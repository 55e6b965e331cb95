"""The loop over steps: batches are announced as far ahead as the store looks, and one runs at a time."""
from __future__ import annotations

import time
from collections import deque
from typing import Dict, Iterator

from .losses import Losses, LossSums
from .sampler import Sampler
from .tables import Tables


class TrainingLoop:
    """Runs the steps from `first_step` to `last_step`.

    Iterating runs one step at a time and yields its losses, or None where the step sums them on its device. Between two
    steps the tables may be drained, read and saved.

    Attributes:
        steps, triples: how many have run so far.
        seconds: time spent so far waiting for batches ("sample"), waiting for rows ("gate"), and computing ("step").
    """

    def __init__(self, tables: Tables, sampler: Sampler, step, first_step: int, last_step: int, lookahead: int):
        self.tables, self._sampler, self._step = tables, sampler, step
        self._first, self._last, self._lookahead = first_step, last_step, lookahead
        self.steps = self.triples = 0
        self.seconds: Dict[str, float] = {"sample": 0.0, "gate": 0.0, "step": 0.0}
        self._sums = LossSums()

    def take_losses(self) -> Losses:
        """Means over the steps since the last call. Waits for the device if the losses are there."""
        return (self._step if hasattr(self._step, "take_losses") else self._sums).take_losses()

    @property
    def _waited_seconds(self) -> float:
        """How long steps have waited for rows, where they do that by themselves."""
        return getattr(self._step, "waited_seconds", 0.0)

    def __iter__(self) -> Iterator:
        tables, seconds = self.tables, self.seconds
        rows = [store.steps for store in tables.stores.values()]
        window = deque()
        with self._sampler.batches(self._first) as batches:
            announced = self._first
            for current in range(self._first, self._last):
                began = time.perf_counter()
                while announced < self._last and announced <= current + self._lookahead:
                    batch = next(batches)
                    tables.announce(batch)
                    window.append(batch)
                    announced += 1
                sampled = time.perf_counter()
                tables.begin(current)
                opened = time.perf_counter()
                batch, waited = window.popleft(), self._waited_seconds
                losses = self._step.run_rows(batch, *rows)
                waited = self._waited_seconds - waited
                tables.end()
                done = time.perf_counter()
                seconds["sample"] += sampled - began
                seconds["gate"] += opened - sampled + waited
                seconds["step"] += done - opened - waited
                self.steps += 1
                self.triples += len(batch.head)
                if losses is not None:
                    self._sums.add(losses)
                yield losses
