"""Which rows a cache admits and evicts: the policies of `--cache_policy`, by name."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from .. import _native
from ..options import CACHE_POLICIES


def make_policy(name: str, slots: int, rows: int, hot_rows: Optional[Sequence[int]] = None) -> _native.CachePolicy:
    """The policy `name` for a cache of `slots` rows of a table of `rows`.

    hot_rows: ids by expected use, most used first; the static policy holds the first `slots` of them. docs/store.md
    says what each policy does. Raises ValueError for a name that is not in options.CACHE_POLICIES.
    """
    if name not in CACHE_POLICIES:
        raise ValueError(f"there is no cache policy '{name}'; there are {', '.join(CACHE_POLICIES)}")
    if name != "static":
        return _native.cache_policy(name, rows, slots)
    if hot_rows is None:
        raise ValueError("the static policy needs to know which rows are hot")
    return _native.StaticHotSet(np.ascontiguousarray(hot_rows[:slots], np.int64))
