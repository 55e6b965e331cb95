"""Cache index: which key lies in which slot of a device's cache (thin wrapper over csrc/cache).

The contract is HierarchicalKV's: fixed capacity, every upsert resolves in place by evict or reject, and what was
evicted comes back from the same call. See csrc/cache/cache_index.h.
"""
from __future__ import annotations

import os
from typing import Optional

import numpy as np

from .. import _native
from ..errors import InputError
from ..files import replace_file

SCORE_POLICIES = ("lru", "lfu", "epoch_lru", "epoch_lfu", "customized")
_FIELDS = {"keys": np.int64, "slots": np.int32, "scores": np.uint64, "touched": np.int64}


def make_index(capacity: int, policy: str, keys: Optional[int] = None) -> _native.CacheIndex:
    """An empty index of `capacity` slots: direct (4 bytes per possible key) if keys are dense in [0, keys), or hashed.

    `policy` is one of SCORE_POLICIES. Raises ValueError for a capacity below 1 or an unknown policy.
    """
    if keys is None:
        return _native.DigestIndex(capacity, policy)
    return _native.DirectIndex(keys, capacity, policy)


def save_index(index: _native.CacheIndex, path: str | os.PathLike) -> None:
    """Write the contents of `index` (keys, slots, scores, times of the last touch) and its clock to an .npz file."""
    contents = dict(zip(_FIELDS, index.export_batch(0, index.capacity)))
    with replace_file(path) as file:
        np.savez(file, capacity=index.capacity, time=index.time, epoch=index.epoch, **contents)


def load_index(index: _native.CacheIndex, path: str | os.PathLike) -> None:
    """Replace the contents and the clock of `index` by the ones that save_index wrote.

    Raises InputError if the file is not one of save_index, or belongs to a cache of another capacity.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            saved = {name: file[name] for name in (*_FIELDS, "capacity", "time", "epoch")}
        contents = [np.ascontiguousarray(saved[name], dtype=dtype) for name, dtype in _FIELDS.items()]
        capacity, time, epoch = (int(saved[name]) for name in ("capacity", "time", "epoch"))
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"cannot read a cache index from {path}: {error}; give a file of save_index") from error
    if capacity != index.capacity:
        raise InputError(f"{path} holds a cache of {capacity} slots, not {index.capacity}; use the same --cache_ratio")
    try:
        index.restore(*contents)
        index.set_time(time)
        index.set_epoch(epoch)
    except (ValueError, IndexError) as error:
        index.clear()
        raise InputError(f"{path} does not fit this cache: {error}; use the settings it was saved with") from error
