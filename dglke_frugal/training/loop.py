"""The loop over steps: batches are announced as far ahead as the store looks, and one runs at a time."""
from __future__ import annotations

import time
from collections import deque
from typing import Dict, Iterator

from .batches.sampler import Sampler
from .step.step import Step
from .tables import Tables


class TrainingLoop:
    """Runs the steps from `first_step` to `last_step`.

    Iterating runs one step at a time and yields its losses, or None where the step sums them on its device. Between two
    steps the tables may be drained, read and saved.

    Attributes:
        step: what computes them.
        steps, triples: how many have run so far.
        seconds: time spent so far waiting for batches ("sample"), without work because rows were not ready ("gate"; see
            store/stalls.py), and with all else ("step"): computing, or waiting for a device that does.
    """

    def __init__(self, tables: Tables, sampler: Sampler, step: Step, first_step: int, last_step: int, lookahead: int):
        self.tables, self._sampler, self.step = tables, sampler, step
        self._first, self._last, self._lookahead = first_step, last_step, lookahead
        self.steps = self.triples = 0
        self.seconds: Dict[str, float] = {"sample": 0.0, "gate": 0.0, "step": 0.0}

    def _batches(self, rows):
        if not self._sampler.made_ahead:
            return self._sampler.batches(self._first)
        return self._sampler.batches(self._first, self.step.pack_ahead(self._sampler, self._lookahead + 1, *rows))

    def __iter__(self) -> Iterator:
        tables, seconds = self.tables, self.seconds
        rows = [store.steps for store in tables.stores.values()]
        stalls = [store.stalls for store in tables.stores.values() if store.stalls]  # of a device, which works on
        window = deque()
        with self._batches(rows) as batches:
            announced = self._first
            for current in range(self._first, self._last):
                began, sampled = time.perf_counter(), 0.0
                while announced < self._last and announced <= current + self._lookahead:
                    asked = time.perf_counter()
                    batch = next(batches)
                    sampled += time.perf_counter() - asked
                    tables.announce(batch)
                    window.append(batch)
                    announced += 1
                announced_at, stalled = time.perf_counter(), sum(each.seconds for each in stalls)
                tables.begin(current)
                opened = time.perf_counter()
                batch = window.popleft()
                losses = self.step.run_rows(batch, *rows)
                tables.end()
                done = time.perf_counter()
                waited = sum(each.seconds for each in stalls) - stalled if stalls else opened - announced_at
                seconds["sample"] += sampled
                seconds["gate"] += waited
                seconds["step"] += done - began - sampled - waited
                self.steps += 1
                self.triples += len(batch.head)
                yield losses
