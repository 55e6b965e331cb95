"""Rows by key: which 64-bit key has which row, in a table of fixed capacity. The contract is HierarchicalKV's.

A key that is new takes a free row of its set, or that of the key with the lowest score there, or is refused if its own
score is lower still (csrc/cache/cache_index.h); no key of a lookup makes way for another one of it. Its
row begins with the key's start values and state 0.
Results depend on the order of lookups alone, not on how far they were prefetched: prefetched lookups are resolved in an
index of their own, ahead of the index that says where rows are.
"""
from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

import numpy as np
import torch

from .. import _native
from ..errors import first_line
from ..store.executor import Executor
from ..store.request import Request
from .init import BY_KEY, Init

LARGEST = (1 << 31) - 1
SCORE_POLICIES = ("lru", "lfu", "epoch_lru", "epoch_lfu", "customized")


class Evicted(NamedTuple):
    """Rows that had to go, in the order in which they went: keys (k,) int64, rows (k, dim) and state (k, floats)
    float32, and the scores (k,) uint64 that they had."""

    keys: np.ndarray
    rows: np.ndarray
    state: np.ndarray
    scores: np.ndarray


class KeyRequest(Request):
    """A lookup by key: `ids` are rows, NO_ROW for keys that were refused.

    Attributes:
        keys: (n,) int64, as asked for.
        distinct, given: its keys in the order of their first occurrence, and what their scores get.
        fresh, fresh_keys: rows that begin anew with this lookup, and whose they are.
        evicted, evicted_scores: whose they were before, -1 for nobody's.
        births: (U,) of lookup.rows when they were read, see KeyTable.
    """

    births: np.ndarray

    def __init__(self, keys: np.ndarray, scores: Optional[np.ndarray], index: _native.CacheIndex, time: int):
        """scores: (n,) uint64 of a customized policy; a key that occurs several times has its highest."""
        distinct, first, place, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        in_order = np.argsort(first)
        given = counts.astype(np.uint64)
        if scores is not None:
            given = np.zeros(len(distinct), np.uint64)
            np.maximum.at(given, place, scores)
        self.keys, self.time = keys, time
        self.distinct, self.given = distinct[in_order], given[in_order]
        index.set_time(time)
        slots = index.assign(self.distinct, self.given)  # first, so that keys of one lookup do not put each other out
        new = np.flatnonzero(slots < 0)
        slots[new], _, evicted, evicted_scores = index.insert_and_evict(self.distinct[new], self.given[new])
        taken = slots[new] >= 0
        self.fresh, self.fresh_keys = slots[new][taken].astype(np.int64), self.distinct[new][taken]
        self.evicted, self.evicted_scores = evicted[taken], evicted_scores[taken]
        of_distinct = np.empty(len(distinct), np.int64)
        of_distinct[in_order] = slots
        super().__init__(of_distinct[place.reshape(-1)], index.capacity)


class KeyTable:
    """The keys of one table.

    A row has the same place as long as its key has it. When another key, or the same one anew, gets the place, another
    row is born there: a gradient belongs to the row that was read, whose births are counted.

    Attributes:
        BYTES_PER_ROW: of host memory that the keys take (csrc/cache/cache_index.h).
    """

    BYTES_PER_ROW = 32

    def __init__(self, capacity: int, policy: str, init: Init, seed: int, keep_evicted: bool):
        """Raises ValueError for a policy or start values that cannot be."""
        if policy not in SCORE_POLICIES:
            raise ValueError(f"there is no policy called {policy!r} for keys; there are {', '.join(SCORE_POLICIES)}")
        if not isinstance(init, BY_KEY):
            raise ValueError("rows by key begin with numbers that depend on the key: init is Uniform, Normal, Xavier "
                             "or Constant of dglke_frugal.embedding")
        self.policy, self._init, self._seed = policy, init, seed
        self._capacity, self._keep = capacity, keep_evicted
        self._births = np.zeros(capacity, np.uint32)  # by place
        self.clear()

    def __getstate__(self) -> Dict:
        """For a copy, which has no prefetched lookups."""
        return {**self.__dict__, "_index": self.saved(), "_ahead": None, "_time": self._index.time}

    def __setstate__(self, state: Dict) -> None:
        evicted, saved = state["_evicted"], state.pop("_index")
        self.__dict__.update(state)
        self.restore(saved)
        self._evicted = evicted

    def __len__(self) -> int:
        return len(self._index)

    def resolve(self, keys: np.ndarray, scores: Optional[np.ndarray], ahead: bool) -> KeyRequest:
        """Bring keys (n,) int64 in for a lookup: the next one, or `ahead` of it the one after those resolved so."""
        if (scores is not None) != (self.policy == "customized"):
            raise ValueError("scores are for policy='customized', which needs them at every lookup that trains")
        if (keys == -1).any():
            raise IndexError("key -1 is reserved: it stands for no key")
        if ahead and self._ahead is None:
            self._ahead = self._copy()
        self._time += 1
        return KeyRequest(keys, scores, self._ahead if ahead else self._index, self._time)

    def gradient_received(self, request: KeyRequest, left: int) -> None:
        """A lookup that was resolved ahead takes place now; `left` more are to come."""
        self._index.set_time(request.time)
        new = self._index.assign(request.distinct, request.given) < 0
        self._index.insert_and_evict(request.distinct[new], request.given[new])
        if not left:
            self._ahead = None

    def forget_ahead(self) -> None:
        """Drop the prefetched lookups: they will not take place."""
        self._ahead, self._time = None, self._index.time

    def begin_rows(self, request: KeyRequest, executor: Executor) -> None:
        """Before the request's rows are read: those of new keys begin anew."""
        self._births[request.fresh] += 1
        request.births = self._births[request.sorted.rows]
        if not len(request.fresh):
            return
        table = executor.table
        records = np.zeros((len(request.fresh), table.record_floats), np.float32)
        records[:, : table.dim] = self.start_values(request.fresh_keys, table.dim)
        went = request.evicted != -1
        before = executor.replace(np.searchsorted(request.sorted.rows, request.fresh), records,
                                  self._keep and went.any())
        if before is not None:
            self._evicted.append(Evicted(request.evicted[went], before[went, : table.dim],
                                         before[went, table.dim :], request.evicted_scores[went]))

    def start_values(self, keys: np.ndarray, dim: int) -> np.ndarray:
        """(k, dim): what rows of keys (k,) begin with, and what keys without a row read."""
        return self._init.by_key(keys, dim, self._seed)

    def fill_absent(self, values: torch.Tensor, ids: np.ndarray, keys: np.ndarray) -> None:
        """values (n, dim) of keys without a row, ids[i] = NO_ROW, become their start values."""
        absent = np.flatnonzero(ids == _native.NO_ROW)
        if len(absent):
            start = torch.from_numpy(self.start_values(keys[absent], values.shape[1]))
            values[torch.from_numpy(absent).to(values.device)] = start.to(values.device)

    def still_there(self, request: KeyRequest) -> np.ndarray:
        """(n,) int64: the rows of a lookup that has taken place, NO_ROW for each that is gone since."""
        rows = request.lookup.rows
        gone = rows[self._births[rows] != request.births]
        return np.where(np.isin(request.ids, gone), _native.NO_ROW, request.ids)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """(n,) int64: the rows that keys have now, NO_ROW for none. Changes nothing."""
        return self._index.find(keys).astype(np.int64)

    def take_evicted(self) -> Optional[Evicted]:
        """What has been evicted since the last call, None for nothing."""
        taken, self._evicted = self._evicted, []
        return Evicted(*(np.concatenate(parts) for parts in zip(*taken))) if taken else None

    def erase(self, keys: np.ndarray) -> np.ndarray:
        """Remove keys; (n,) bool: which of them were there."""
        there = self.find(keys) != _native.NO_ROW
        self._index.erase(keys)
        return there

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the epoch policies from now on, not lower than before. Raises ValueError."""
        if not isinstance(epoch, (int, np.integer)) or not 0 <= epoch < 2**32:
            raise ValueError(f"an epoch is a whole number from 0 to 2**32 - 1, not {epoch!r}")
        self._index.set_epoch(int(epoch))

    def entries(self):
        """(keys int64, rows int32, scores uint64, times of the last use int64), by row."""
        return self._index.entries()

    def saved(self) -> Dict[str, np.ndarray]:
        """All there is to know, by name."""
        keys, slots, scores, touched = self.entries()
        clock = np.array([self._index.time, self._index.epoch], np.int64)
        return {"keys": keys, "slots": slots, "scores": scores.view(np.int64), "touched": touched, "clock": clock}

    def restore(self, saved: Dict[str, np.ndarray]) -> None:
        """Take back what `saved` gave. Raises ValueError, with nothing changed, if it is of another table."""
        index = _native.CacheIndex(self._capacity, self.policy)
        try:
            kinds = (np.int64, np.int32, np.int64, np.int64)
            keys, slots, scores, touched = (np.ascontiguousarray(saved[name], kind) for name, kind
                                            in zip(("keys", "slots", "scores", "touched"), kinds))
            time, epoch = (int(value) for value in saved["clock"])
            if not (0 <= time < 2**62 and 0 <= epoch < 2**32):
                raise ValueError(f"{time} lookups and epoch {epoch} are no clock")
            index.restore(keys, slots, scores.view(np.uint64), touched)
            index.set_time(time)
            index.set_epoch(epoch)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise ValueError(f"the keys do not fit this table ({first_line(error)}); use the capacity it was saved "
                             "with") from error
        self._index, self._ahead, self._time, self._evicted = index, None, time, []
        self._births += 1

    def clear(self) -> None:
        """Take all rows from their keys."""
        self._index = _native.CacheIndex(self._capacity, self.policy)
        self._ahead: Optional[_native.CacheIndex] = None  # after the lookups to come, while there are some
        self._time = 0  # lookups resolved so far
        self._evicted: List[Evicted] = []

    def _copy(self) -> _native.CacheIndex:
        copy = _native.CacheIndex(self._capacity, self.policy)
        copy.restore(*self.entries())
        copy.set_time(self._index.time)
        copy.set_epoch(self._index.epoch)
        return copy
