"""The loop over steps: batches are announced as far ahead as the store looks, and one runs at a time."""
from __future__ import annotations

import time
from collections import deque
from typing import Iterator

from .sampler import Sampler
from .tables import Tables


class TrainingLoop:
    """Runs the steps from `first_step` to `last_step`.

    Iterating runs one step at a time and yields its losses. Between two steps the tables may be drained, read and saved.

    Attributes:
        sample_seconds, gate_seconds, step_seconds: time spent so far waiting for batches, waiting for rows, and computing.
    """

    def __init__(self, tables: Tables, sampler: Sampler, step, first_step: int, last_step: int, lookahead: int):
        self._tables, self._sampler, self._step = tables, sampler, step
        self._first, self._last, self._lookahead = first_step, last_step, lookahead
        self.sample_seconds = self.gate_seconds = self.step_seconds = 0.0

    def __iter__(self) -> Iterator:
        tables = self._tables
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
                losses = self._step.run_rows(window.popleft(), *(store.steps for store in tables.stores.values()))
                tables.end()
                done = time.perf_counter()
                self.sample_seconds += sampled - began
                self.gate_seconds += opened - sampled
                self.step_seconds += done - opened
                yield losses
