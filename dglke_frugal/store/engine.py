"""The P2F engine over one host table: background flushing by next use, as a context manager.

See docs/p2f.md for the protocol and csrc/engine/rank_port.h for the order of calls of a rank.
"""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from dglke_frugal import _native

EngineError = _native.EngineError
FROM_HOST = -1  # in a plan's source: the row is read from host memory


class RowDestination(IntEnum):
    """What happens to a row after a step has used it (a plan's third array)."""

    CACHE = 0  # updated in cache slot `target`
    VALUE = 1  # the new record goes to staging at float `target`
    GRADIENT = 2  # the row's gradients go to staging at float `target`, entry after entry, one stride apart
    HOST_ROW = 3  # the new record goes straight to host row `target`


@dataclass(frozen=True)
class EngineConfig:
    """Sizes and mode of an engine. Results do not depend on any of it but `entries`, to the bit."""

    max_rows_per_step: int  # distinct rows of one rank in one step, at most
    ranks: int = 1
    same_steps: bool = False  # all ranks run the same steps, each on columns of its own: one plan, by one policy
    planner_threads: int = 0  # that look up the rows of a step; 0: by the cores of the process
    lookahead: int = 10  # steps that may be registered beyond the one that runs
    flush_threads: int = 2
    mode: str = "p2f"  # or "sync": all is flushed before the next step; or "off": in order, without caches
    value_path: str = "staging"  # or "host_row": the executor stores values into host rows itself
    entries: int = 2  # of a step: positives and negatives; 1 for relations
    staging_bytes: int = 0  # per rank; 0: eight steps of values
    horizon: int = 0  # steps that a plan looks ahead, for cache policies that want the next use
    in_flight_steps: int = 0  # whose values may wait in slots behind the cache: see csrc/engine/config.h
    poll_microseconds: int = 0  # > 0 where a device advances the counters
    attach_seconds: float = 300.0  # how long ranks wait for one that has never attached
    shared: bool = False  # ranks may attach from other processes


class Engine:
    """Runs the planner and the flush threads for as long as the context lasts.

    host_rows: float32 (rows, stride), C-contiguous, rows = embedding (dim), state, padding; written in place.
    update: `_native.RowAdagradUpdate(lr)`, `_native.SgdUpdate(lr)` or a `_native.SummedUpdate`, with `state` floats of
    state per row. caches: one `CachePolicy` per rank, one for all ranks that run the same steps, or none.

    An exception inside the context stops all ranks with its message. EngineError is what every later call of a rank
    raises once a flush thread, another rank or its process has failed.
    """

    def __init__(self, host_rows, dim: int, update, config: EngineConfig, caches=(), state: int = 1):
        self._host_rows = host_rows  # the flush threads write to it
        self._native = _native.Engine(
            host_rows,
            dim=dim,
            state=state,
            ranks=config.ranks,
            same_steps=config.same_steps,
            planner_threads=config.planner_threads,
            lookahead=config.lookahead,
            flush_threads=config.flush_threads,
            mode=config.mode,
            value_path=config.value_path,
            max_rows_per_step=config.max_rows_per_step,
            entries=config.entries,
            staging_bytes=config.staging_bytes,
            horizon=config.horizon,
            in_flight_steps=config.in_flight_steps,
            poll_microseconds=config.poll_microseconds,
            attach_seconds=config.attach_seconds,
            update=update,
            caches=list(caches),
            shared=config.shared,
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is not None:
            self._native.fail(f"A rank stopped: {error}")
        self.close()

    def close(self):
        """Stop all threads. What has not been drained is lost."""
        self._native.close()

    def port(self, rank: int):
        """The `RankPort` of a rank that lives in this process."""
        return self._native.port(rank)

    @property
    def segment_path(self) -> str:
        """For `_native.attach_rank(path, rank)` in another process; empty unless the engine is shared."""
        return self._native.segment_path

    @property
    def error(self) -> str:
        """The sentence that stopped the engine, or an empty string."""
        return self._native.error

    def statistics(self) -> dict:
        """Counters by rank and by flush thread, and the engine's memory in bytes."""
        return self._native.statistics()
