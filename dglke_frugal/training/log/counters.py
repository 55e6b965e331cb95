"""Counts of the work of cache and flush engine so far, as numbers that can be subtracted, logged and written to a
file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Dict, Mapping, Optional

from ...store.device.stalls import Stalls

NANO = 1e-9
FLOAT_BYTES = 4


@dataclass(frozen=True)
class StoreCounters:
    """Counts since the start of the process, over all ranks.

    hits, misses: rows of a step that were found in a cache, and others. evictions: rows that a cache wrote back to make
    room. bytes_read: of the misses that were read from host memory, and not where they were on their way there;
    bytes_flushed: of the rows that reached host memory again.
    stall_seconds: without work because of waiting at the gate, for a plan, or for room in staging, in `stalled_steps`
    of the steps.
    """

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    bytes_read: int = 0
    bytes_flushed: int = 0
    rows_flushed: int = 0
    stalled_steps: int = 0
    stall_seconds: float = 0.0

    @classmethod
    def of(cls, statistics: Mapping, dim: int, stalls: Optional[Stalls] = None) -> "StoreCounters":
        """From the engine's statistics (csrc/engine/engine.h) for rows whose embeddings take `dim` floats, and a state.

        stalls: of a device, which may have had work while its host waited.
        """

        def over(parts: str, name: str) -> int:
            return sum(part[name] for part in statistics[parts])

        stall = sum(over("ranks", f"{name}_nanoseconds") for name in ("gate_stall", "staging_stall", "plan_wait"))
        misses = over("ranks", "host_reads")
        return cls(over("ranks", "cache_reads"), misses, over("ranks", "write_backs_sent"),
                   (misses - over("ranks", "buffer_reads")) * (dim + 1) * FLOAT_BYTES,
                   over("flush_workers", "flushed_bytes"), over("flush_workers", "flushed_rows"),
                   stalls.steps if stalls else over("ranks", "steps_with_stall"),
                   stalls.seconds if stalls else stall * NANO)

    def __sub__(self, earlier: "StoreCounters") -> "StoreCounters":
        return StoreCounters(
            *(now - before for now, before in zip(dataclasses.astuple(self), dataclasses.astuple(earlier))))

    @property
    def hit_share(self) -> float:
        """Hits among the rows that steps used; 0 before the first."""
        return self.hits / max(1, self.hits + self.misses)

    def to_dict(self) -> Dict[str, float]:
        """All counts and the hit share, by name."""
        return {**dataclasses.asdict(self), "hit_share": self.hit_share}
