"""Rows behind caches and the P2F engine: those of the process that runs the engine, and those of other ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple


from .. import _native
from .cache_policy import make_policy
from .engine import Engine, EngineConfig
from .half_embeddings import Rounding, rounded_rows

STEPS_APART = 8  # that ranks with the same steps may be, before the one that registers them waits for another


@dataclass(frozen=True)
class FlushConfig:
    """How rows are cached and flushed. Only the first four can be wrong; the rest is a matter of speed.

    max_rows_per_step: distinct rows of one rank in one step, at most. entries: 2 for entities (positives, negatives), 1
    for relations. ranks: processes that train together; with same_steps each has a table of its own, with its columns
    of every row, and all run the same steps by one plan (value_path must be "host_row"). max_gradients_per_step: that
    one of several ranks sends, at most. mode: "p2f", "sync" or "off" (in order, without caches). slots: rows that the
    cache of a rank holds. value_path: "staging" (a flush thread copies values to the host row) or "host_row" (the step
    stores them there itself; with one rank no gate then waits). host_read: how a device gets the rows that its cache
    does not hold, see store/host_read.py. staging_bytes: of a rank, 0 for a size that suits one rank alone; several
    ranks send gradients and need room for all that a step can send.
    """

    max_rows_per_step: int
    entries: int = 2
    ranks: int = 1
    max_gradients_per_step: int = 0
    mode: str = "p2f"
    lookahead: int = 10
    flush_threads: int = 2
    slots: int = 0
    policy: str = "static"
    value_path: str = "staging"
    host_read: str = "auto"
    staging_bytes: int = 0
    same_steps: bool = False


@dataclass(frozen=True)
class StoreAddress:
    """Where another process of this machine finds a store's table and engine; valid while the first process lives.

    slots: of each rank's cache. lookahead and the two that follow: as in FlushConfig. host_read: what the first process
    chose for its device, "uva" or "copy". state: floats of optimizer state of a row.
    """

    table: str
    rows: int
    dim: int
    segment: str
    slots: Tuple[int, ...]
    lookahead: int
    max_rows_per_step: int
    max_gradients_per_step: int
    host_read: str
    state: int = 1


class FlushedRows:
    """The engine of one table, and the rows of rank 0."""

    def __init__(self, table: _native.HostTable, learning_rate: float, config: FlushConfig,
                 hot_rows: Sequence[Optional[Sequence[int]]] = (), device=None, update=None,
                 rounding: Optional[Rounding] = None):
        """Start the flush threads.

        update: the _native.RowUpdate by which gradients of several ranks change a row; row-wise Adagrad in DGL-KE's
        order if not given.

        hot_rows: of each rank, ids by expected use, most used first, for the static policy. device: a
        store.device.Device that the cache and the step of rank 0 are on; without one, steps work on pointers
        (csrc/store/cached_rows.h). rounding: of a table in halves, which the engine moves as rows of half as many
        floats; then there is one rank.
        """
        self._device = device
        lookahead, poll, in_flight = config.lookahead, 0, 0
        if device is not None:
            from .device_rows import STEPS_ON_DEVICE  # here, because it imports torch
            from .engine_rows import POLL_MICROSECONDS, STEPS_IN_FLIGHT, make_engine_rows

            lookahead, poll, in_flight = lookahead + STEPS_IN_FLIGHT, POLL_MICROSECONDS, STEPS_ON_DEVICE
        if config.same_steps:
            lookahead += STEPS_APART
        caches = []
        if config.slots and config.mode != "off":
            caches = [make_policy(config.policy, config.slots, table.rows, hot_rows[rank] if hot_rows else None)
                      for rank in range(1 if config.same_steps else config.ranks)]
        self._engine = Engine(
            table.records, table.embedding_floats, update or _native.RowAdagradUpdate(learning_rate),
            EngineConfig(config.max_rows_per_step, ranks=config.ranks, same_steps=config.same_steps,
                         lookahead=lookahead, poll_microseconds=poll, in_flight_steps=in_flight,
                         flush_threads=config.flush_threads, mode=config.mode, value_path=config.value_path,
                         entries=config.entries, staging_bytes=config.staging_bytes, shared=config.ranks > 1,
                         horizon=config.lookahead - 1 if config.policy == "next_use" else 0), caches,
            table.state_floats)
        slots = tuple(cache.slots for cache in caches) or (0,)
        slots *= config.ranks // len(slots)
        self._port = self._engine.port(0)
        if device is None:
            self.steps = rounded_rows(_native.CachedRows(table, self._port, slots[0]), rounding)
        else:
            self.steps = make_engine_rows(table, self._port, slots[0], config.lookahead, device,
                                          config.max_rows_per_step, config.max_gradients_per_step, config.host_read,
                                          rounding)
        host_read = config.host_read if device is None else self.steps.host_read
        self.address = StoreAddress(table.path, table.rows, table.dim, self._engine.segment_path, slots,
                                    config.lookahead, config.max_rows_per_step, config.max_gradients_per_step,
                                    host_read, table.state_floats)

    def statistics(self) -> dict:
        """Counters of the engine; see csrc/engine/engine.h."""
        return self._engine.statistics()

    @property
    def steps_run(self) -> int:
        """Steps of this rank that have ended."""
        return self._port.statistics()["steps"]

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence, unless there is one already."""
        self._port.fail(sentence)

    def close(self) -> None:
        """Stop the flush threads. What has not been drained is lost."""
        if self._device is not None:
            self.steps.close()
        self._engine.close()


class AttachedRows:
    """The rows of another rank than 0, in a process of its own."""

    def __init__(self, table: _native.HostTable, address: StoreAddress, rank: int, device=None):
        """device: as for FlushedRows; all ranks have one, or none has."""
        self._device = device
        self._port = _native.attach_rank(address.segment, rank)
        self.address = address
        if device is None:
            self.steps = _native.CachedRows(table, self._port, address.slots[rank])
        else:
            from .engine_rows import make_engine_rows  # here, because it imports torch

            self.steps = make_engine_rows(table, self._port, address.slots[rank], address.lookahead, device,
                                          address.max_rows_per_step, address.max_gradients_per_step, address.host_read)

    def statistics(self) -> dict:
        """Counters of this rank alone; it has no flush threads."""
        return {"ranks": [self._port.statistics()], "flush_workers": []}

    @property
    def steps_run(self) -> int:
        """Steps of this rank that have ended."""
        return self._port.statistics()["steps"]

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence, unless there is one already."""
        self._port.fail(sentence)

    def close(self) -> None:
        """Leave the engine. What has not been drained is lost."""
        if self._device is not None:
            self.steps.close()
        del self.steps, self._port
