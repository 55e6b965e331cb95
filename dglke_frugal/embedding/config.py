"""How a table is cached and flushed. Only speed depends on it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np

from ..options import AUTO, CACHE_POLICIES, FLUSH_MODES

MOST_THREADS = 1024  # more would only wait for each other


@dataclass(frozen=True)
class CacheConfig:
    """Where rows are kept and how they reach the host table; results do not depend on it, to the bit.

    cache_ratio: share of the rows that the device keeps, 0 to 1. cache_policy: one of options.CACHE_POLICIES; static
    keeps hot_ids, lfu needs no knowledge; without either the policy is lfu. hot_ids: row ids by expected use,
    most used first. lookahead: lookups that may be announced beyond the running one. flush: who stores updates into
    host memory: "direct", the GPU itself, of several GPUs the one that owns the row; "p2f" or "sync", flush threads;
    "none": on the CPU the table is updated in place, on a GPU all of it lies in the GPU's memory; "auto": direct on one
    GPU and on several that reach each other, else p2f. flush_threads: their number. max_rows: distinct rows of one
    lookup at most; by default one and a half times the rows of the first lookup, and a larger lookup makes a larger
    engine. ranks: processes of this machine that train the table together,
    on the CPU or with a GPU each; they need max_rows.
    """

    cache_ratio: float = 0.05
    cache_policy: Optional[str] = None
    hot_ids: Optional[Sequence[int]] = None
    lookahead: int = 10
    flush: str = AUTO
    flush_threads: int = 2
    max_rows: Optional[int] = None
    ranks: int = 1

    def __post_init__(self):
        if not isinstance(self.cache_ratio, (int, float, np.number)) or not 0 <= self.cache_ratio <= 1:
            raise ValueError(f"cache_ratio is a share from 0 to 1, not {self.cache_ratio!r}")
        for name, value, known in (("cache_policy", self.policy, CACHE_POLICIES),
                                   ("flush", self.flush, (AUTO, *FLUSH_MODES))):
            if value not in known:
                raise ValueError(f"there is no {name} called {value!r}; there are {', '.join(known)}")
        if self.policy == "static" and self.hot_ids is None:
            raise ValueError("cache_policy='static' needs hot_ids, the ids that are used most; take 'lfu' without them")
        if self.hot_ids is not None:
            hot = np.asarray(self.hot_ids)
            if hot.ndim != 1 or hot.size and hot.dtype.kind not in "iu":
                raise ValueError(f"hot_ids are a list of ids, which are whole numbers, not {hot.dtype} of shape "
                                 f"{hot.shape}")
        for name in ("lookahead", "flush_threads", "ranks", *(() if self.max_rows is None else ("max_rows",))):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or not 1 <= value < 2**31:
                raise ValueError(f"{name} is a whole number of at least 1, not {value!r}")
        if self.flush_threads > MOST_THREADS:
            raise ValueError(f"flush_threads is at most {MOST_THREADS}, not {self.flush_threads}")
        if self.ranks > 1 and (self.max_rows is None or self.flush == "none"):
            raise ValueError("several ranks need max_rows, the most distinct rows of one lookup, and a flush other "
                             "than 'none'")

    def check_hot_ids(self, rows: int) -> None:
        """Raise ValueError for hot_ids that a table of so many rows does not have."""
        hot = np.asarray([] if self.hot_ids is None else self.hot_ids)
        wrong = hot[(hot < 0) | (hot >= rows)]
        if len(wrong):
            raise ValueError(f"hot_ids are from 0 to {rows - 1}, the last row of the table, not {wrong[0]}")

    @property
    def policy(self) -> str:
        """The cache policy's name."""
        return self.cache_policy or ("static" if self.hot_ids is not None else "lfu")
