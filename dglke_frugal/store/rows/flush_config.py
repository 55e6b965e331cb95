"""How rows are cached and flushed: the settings of a store and of its engine, as other ranks get them, too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict

REUSING_STEPS = 256  # a table of the rows of no more steps has rows that come again soon
SMALL_TABLE = 64 << 20  # bytes of host rows that processors' caches take as fast as the bus brings them


def rows_come_again(rows: int, rows_of_step: int) -> bool:
    """Whether steps use rows of a table soon again, often enough to look for it (FlushConfig.keeps_reused)."""
    return rows <= REUSING_STEPS * rows_of_step


@dataclass(frozen=True)
class FlushConfig:
    """How rows are cached and flushed. Only the first three can be wrong; the rest is a matter of speed.

    max_rows_per_step: distinct rows of one rank in one step, at most. entries: 2 for entities (positives, negatives), 1
    for relations. ranks: processes that train together; with same_steps each has a table of its own, with its columns
    of every row, and all run the same steps by one plan (mode must be "direct"). mode: how new values reach host rows:
    "direct" (the step on a device stores them there itself, and no gate waits; several ranks with other steps then
    synchronise in each step, see in_step_sync.py), "p2f" or "sync" (flush threads copy them there from staging, by
    next use, or all before the next step). lookahead: steps that may be registered beyond the one that runs. slots:
    rows that the cache of a rank holds. staging_bytes: of a rank, 0 for a size that suits one rank alone; several ranks
    send gradients and need room for all that a step can send. keeps_reused: on a device, a value on its way to its host
    row stays there if one of the next steps uses the row again, which costs the planner a look at each row of a step.
    owner_transfer: ranks with same_steps move whole rows for each other (row_transfer.py), and their tables are parts
    of one.
    """

    max_rows_per_step: int
    entries: int = 2
    ranks: int = 1
    mode: str = "p2f"
    lookahead: int = 10
    flush_threads: int = 2
    slots: int = 0
    policy: str = "static"
    staging_bytes: int = 0
    same_steps: bool = False
    keeps_reused: bool = False
    owner_transfer: bool = False

    @property
    def in_step_sync(self) -> bool:
        """Whether the ranks' devices synchronise in each step (in_step_sync.py), instead of waiting at gates."""
        return self.mode == "direct" and self.ranks > 1 and not self.same_steps


@dataclass(frozen=True)
class StoreAddress:
    """Where another process of this machine finds a store's table and engine; valid while the first process lives.

    state: floats of optimizer state of a row. on_device: whether all its workers compute on devices; else none does.
    flushing: as the store was made.
    """

    table: str
    rows: int
    dim: int
    state: int
    segment: str
    on_device: bool
    flushing: FlushConfig

    def to_json(self) -> Dict[str, Any]:
        """JSON for from_json."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Dict[str, Any]) -> "StoreAddress":
        """From to_json's result, in this process or another."""
        return cls(**{**found, "flushing": FlushConfig(**found["flushing"])})
