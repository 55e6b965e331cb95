"""Which rows a cache admits and evicts: what the package knows of the policies of `--cache_policy`, by name."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Sequence

import numpy as np

from .. import _native


@dataclass(frozen=True)
class Policy:
    """docs/store.md says what each policy does.

    make(slots, rows, hot): for a cache of `slots` rows of a table of `rows`; hot (n,) int64: rows by expected use, most
    used first. index_bytes(slots, rows): of host memory that it takes. keeps_hot_rows: whether it holds the first
    `slots` hot rows and evicts none.
    """

    make: Callable[[int, int, Optional[np.ndarray]], _native.CachePolicy]
    index_bytes: Callable[[int, int], int]
    keeps_hot_rows: bool = False


POLICIES = {  # for each of options.CACHE_POLICIES
    # csrc/engine/numbered_rows.h
    "static": Policy(lambda slots, rows, hot: _native.StaticHotSet(hot[:slots]), lambda slots, rows: rows // 6, True),
    # csrc/cache/scored_sets.h
    "lfu": Policy(lambda slots, rows, hot: _native.lfu_cache_policy(rows, slots), lambda slots, rows: 5 * slots),
}


def make_policy(name: str, slots: int, rows: int, hot_rows: Optional[Sequence[int]] = None) -> _native.CachePolicy:
    """The policy `name`. Raises ValueError for a name that is not in POLICIES, or if hot rows are not known."""
    if name not in POLICIES:
        raise ValueError(f"there is no cache policy '{name}'; there are {', '.join(POLICIES)}")
    policy = POLICIES[name]
    if policy.keeps_hot_rows and hot_rows is None:
        raise ValueError(f"the {name} policy needs to know which rows are hot")
    return policy.make(slots, rows, None if hot_rows is None else np.ascontiguousarray(hot_rows, np.int64))
