"""Which rows a cache admits and evicts: the policies of `--cache_policy`, by name."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from .. import _native
from ..options import CACHE_POLICIES


def keeps_hot_rows(policy: str) -> bool:
    """Whether a policy holds the rows that are expected to be used most, and evicts none."""
    return policy == "static"


def index_bytes(policy: str, slots: int, rows: int) -> int:
    """Host memory that a policy takes for a cache of `slots` rows of a table of `rows`."""
    if keeps_hot_rows(policy):
        return rows // 6  # csrc/engine/numbered_rows.h
    return _native.cache_policy_slot_bytes(policy) * slots


def make_policy(name: str, slots: int, rows: int, hot_rows: Optional[Sequence[int]] = None) -> _native.CachePolicy:
    """The policy `name` for a cache of `slots` rows of a table of `rows`.

    hot_rows: ids by expected use, most used first; a policy that keeps hot rows holds the first `slots`.
    docs/store.md says what each policy does. Raises ValueError for a name that is not in options.CACHE_POLICIES.
    """
    if name not in CACHE_POLICIES:
        raise ValueError(f"there is no cache policy '{name}'; there are {', '.join(CACHE_POLICIES)}")
    if not keeps_hot_rows(name):
        return _native.cache_policy(name, rows, slots)
    if hot_rows is None:
        raise ValueError(f"the {name} policy needs to know which rows are hot")
    return _native.StaticHotSet(np.ascontiguousarray(hot_rows[:slots], np.int64))
