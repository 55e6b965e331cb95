"""The loop over steps: batches are announced as far ahead as the store looks, and one runs at a time."""
from __future__ import annotations

import contextlib
import gc
import time
from collections import deque
from typing import Dict, Iterator

from ..batches.sampler import Sampler
from ..step.step import Step
from ..tables.tables import Tables
from ..tables.unit_rows import normalize_rows


class TrainingLoop:
    """Runs the steps from `first_step` to `last_step`.

    Iterating runs one step at a time and yields its losses, or None where the step sums them on its device. Between two
    steps the tables may be drained, read and saved.

    Attributes:
        step: what computes them.
        steps, triples: how many have run so far.
    """

    def __init__(self, tables: Tables, sampler: Sampler, step: Step, first_step: int, last_step: int, lookahead: int,
                 unit_entities: bool = False):
        """unit_entities: whether entity rows, which then lie on the CPU, have length 1 after each step."""
        self._unit_table = tables.entity.embeddings if unit_entities else None
        self.tables, self._sampler, self.step = tables, sampler, step
        self._first, self._last, self._lookahead = first_step, last_step, lookahead
        self.steps = self.triples = 0
        self._spent = self._sampled = self._gated = 0.0  # in all steps, of that for batches, at gates
        # Of a device, which works on meanwhile.
        self._stalls = [store.stalls for store in tables.stores.values() if store.stalls]

    @property
    def seconds(self) -> Dict[str, float]:
        """Time spent so far waiting for batches ("sample"), without work because rows were not ready ("gate"; see
        store/device/stalls.py), and with all else ("step"): computing, or waiting for a device that does."""
        gated = sum(each.seconds for each in self._stalls) if self._stalls else self._gated
        return {"sample": self._sampled, "gate": gated, "step": self._spent - self._sampled - gated}

    def _batches(self, rows):
        if not self._sampler.made_ahead:
            return self._sampler.batches(self._first)
        return self._sampler.batches(self._first, self.step.pack_ahead(self._sampler, self._lookahead + 1, *rows))

    def __iter__(self) -> Iterator:
        tables, clock = self.tables, time.perf_counter
        rows = [store.steps for store in tables.stores.values()]
        window = deque()
        with self._batches(rows) as batches, _no_old_garbage():
            announced = self._first
            for current in range(self._first, self._last):
                began = clock()
                while announced < self._last and announced <= current + self._lookahead:
                    asked = clock()
                    batch = next(batches)
                    self._sampled += clock() - asked
                    tables.announce(batch)
                    window.append(batch)
                    announced += 1
                announced_at = clock()
                tables.begin(current)
                self._gated += clock() - announced_at
                batch = window.popleft()
                losses = self.step.run_rows(batch, *rows)
                tables.end()
                if self._unit_table is not None:
                    normalize_rows(self._unit_table, batch.entities)
                self._spent += clock() - began
                self.steps += 1
                self.triples += len(batch)
                yield losses


@contextlib.contextmanager
def _no_old_garbage():
    """Objects that exist when training begins, modules above all, are not searched for garbage again and again; unless
    whoever calls has set something aside already, which then stays so."""
    if gc.get_freeze_count():
        yield
        return
    gc.collect(1)  # what the preparations have left
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
