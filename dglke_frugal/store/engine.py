"""The P2F engine over one host table: background flushing by next use, as a context manager.

See docs/p2f.md for the protocol and csrc/engine/rank_port.h for the order of calls of a rank.
"""
from __future__ import annotations

from .. import _native
from .flush_config import FlushConfig

EngineError = _native.EngineError


class Engine:
    """Runs the planner and the flush threads for as long as the context lasts.

    host_rows: float32 (rows, stride), C-contiguous, rows = embedding (dim), state, padding; written in place.
    update: `_native.RowAdagradUpdate(lr)`, `_native.SgdUpdate(lr)` or a `_native.SummedUpdate`, with `state` floats of
    state per row. caches: one `CachePolicy` per rank, one for all ranks that run the same steps, or none.

    An exception inside the context stops all ranks with its message. EngineError is what every later call of a rank
    raises once a flush thread, another rank or its process has failed.
    """

    def __init__(self, host_rows, dim: int, update, config: FlushConfig, caches=(), state: int = 1):
        """config: of which C++ reads what concerns the engine. Ranks of other processes may attach if there are
        several."""
        self._host_rows = host_rows  # the flush threads write to it
        self._native = _native.Engine(host_rows, dim, state, update, list(caches), config)

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
