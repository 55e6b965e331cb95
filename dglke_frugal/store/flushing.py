"""Rows behind a cache and the P2F engine, on the CPU."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np

from .. import _native
from .cache_policy import make_policy
from .engine import Engine, EngineConfig


@dataclass(frozen=True)
class FlushConfig:
    """How rows are cached and flushed. Only max_rows_per_step and entries can be wrong; the rest is a matter of speed.

    max_rows_per_step: distinct rows of a step, at most. entries: 2 for entities (positives, negatives), 1 for relations.
    mode: "p2f" or "sync". slots: rows that the cache holds. value_path: "staging" (a flush thread copies values to the host
    row) or "host_row" (the step stores them there itself).
    """

    max_rows_per_step: int
    entries: int = 2
    mode: str = "p2f"
    lookahead: int = 10
    flush_threads: int = 2
    slots: int = 0
    policy: str = "static"
    value_path: str = "staging"


class FlushedRows:
    """The engine of one table and the rows of its only rank."""

    def __init__(self, table: _native.HostTable, learning_rate: float, config: FlushConfig,
                 hot_rows: Optional[Sequence[int]] = None):
        """Start the flush threads. hot_rows: ids by expected use, most used first; needed by the static policy."""
        caches = []
        if config.slots:
            caches = [make_policy(config.policy, config.slots, table.rows, hot_rows)]
        self._engine = Engine(
            table.records, table.dim, _native.RowAdagradUpdate(learning_rate),
            EngineConfig(config.max_rows_per_step, lookahead=config.lookahead, flush_threads=config.flush_threads,
                         mode=config.mode, value_path=config.value_path, entries=config.entries,
                         horizon=config.lookahead - 1 if config.policy == "next_use" else 0), caches)
        self._port = self._engine.port(0)
        self.steps = _native.CachedRows(table, self._port, config.slots)

    def statistics(self) -> dict:
        """Counters of the engine; see csrc/engine/engine.h."""
        return self._engine.statistics()

    def close(self) -> None:
        """Stop the flush threads. What has not been drained is lost."""
        self._engine.close()
