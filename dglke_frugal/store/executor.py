"""Who carries out lookups on a table: rows out, and one update per row in, from the sum of its gradients.

Lookups that are announced run as steps, in their order: begin, gather, then update or skip. Between two steps any rows
may be read and changed. What is read is what a plain table would hold, to the bit, whoever carries it out:

    TableExecutor    the host table in place; nothing lies between it and a step
    EngineExecutor   the CPU behind a cache and the P2F engine
    DeviceExecutor   a GPU (device_executor.py), or the CPU in its place: DeviceRows bring its rows
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Optional

import numpy as np
import torch

from .. import _native
from .device import torch_threads
from .flushing import RankRows
from .request import Request

HOST = torch.device("cpu")  # in which torch has not to read a name

torch_threads.borrow()


class Executor(ABC):
    """The common part of all executors.

    Attributes:
        torch_device: where embeddings are given out and gradients are taken.
        window: lookups that may be announced beyond the running one.
    """

    torch_device = HOST
    window: int = 1 << 30

    def __init__(self, table: _native.HostTable, update: _native.SummedUpdate):
        self.table, self.rule = table, update

    def ids_memory(self, count: int) -> np.ndarray:
        """(count,) int64 for the ids of a request. The memory is used again when nobody has this array any more."""
        return np.empty(count, np.int64)

    def packing_memory(self, count: int) -> Optional[np.ndarray]:
        """Where `begin` takes the packed lookup of a request of `count` ids from, None where it wants none. The memory
        is used again when nobody has this array any more."""

    def sorts_on_device(self, count: int) -> bool:
        """Whether so many ids of a lookup are sorted out by the device."""
        return False

    def sort_ahead(self, request: Request) -> None:
        """Have the ids of a request to come sorted out."""
        request.sort_ahead(self.packing_memory(len(request.ids)))

    @abstractmethod
    def announce(self, request: Request) -> None:
        """The step after the announced ones is this request."""

    @abstractmethod
    def begin(self, request: Request) -> None:
        """The next announced step, which is this request, runs from now on. Waits until its rows may be read."""

    @abstractmethod
    def gather(self) -> torch.Tensor:
        """(n, dim) float32: the embeddings of the running step's ids; zeros for ids that stand for no row."""

    @abstractmethod
    def update(self, gradients: torch.Tensor, numbers: Optional[np.ndarray] = None) -> None:
        """End the step: each row is updated once, from the sum of its gradients, in the order of its occurrences.

        gradients (m, dim) float32, rows contiguous. numbers: (n,) int32, which of them each id has; if not given its
        own, so that m = n.
        """

    @abstractmethod
    def skip(self) -> None:
        """End the step; its rows stay as they are."""

    @abstractmethod
    def replace(self, positions: np.ndarray, records: np.ndarray, wanted: bool) -> Optional[np.ndarray]:
        """Before gather: rows lookup.rows[positions] of the running step begin anew with `records`.

        records (k, record_floats) float32: embedding and optimizer state. Returns what the rows held before, if that
        is wanted.
        """

    def change(self, request: Request, gradients: torch.Tensor, numbers: Optional[np.ndarray] = None) -> None:
        """Between two steps, and with none announced: update the rows of a request, as `update` does."""
        self.announce(request)
        self.begin(request)
        self.update(gradients, numbers)

    def read(self, ids: np.ndarray) -> torch.Tensor:
        """Between two steps, behind `drain`: embeddings (n, dim) of ids (n,) int64."""
        return self._on_host(ids).to(self.torch_device)

    def _on_host(self, ids: np.ndarray) -> torch.Tensor:
        """(n, dim) of ids (n,) int64, as the host table has them."""
        values = torch.empty(len(ids), self.table.dim, dtype=torch.float32, device=HOST)
        _native.gather_ids(self.table, ids, values.numpy())
        return values

    def drain(self) -> None:
        """Between two steps: wait until the host table holds every update."""

    def statistics(self) -> Optional[dict]:
        """Counters of cache and engine, None where there is none."""

    def close(self) -> None:
        """Stop what runs in the background. What has not been drained is lost."""


def _in_order(lookup: _native.Lookup, numbers: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """Numbers (n,) of ids' gradients in the order of the lookup."""
    return None if numbers is None else numbers[lookup.order]


class TableExecutor(Executor):
    """The host table in place. A step is nothing but its reading and its update, so any number may be under way."""

    def announce(self, request):
        pass

    def begin(self, request):
        self._request = request

    def gather(self):
        return self._on_host(self._request.ids)

    def update(self, gradients, numbers=None):
        self.change(self._request, gradients, numbers)

    def skip(self):
        pass

    def replace(self, positions, records, wanted):
        rows, floats = self._request.lookup.rows[positions], self.table.record_floats
        before = self.table.records[rows, :floats] if wanted else None
        self.table.records[rows, :floats] = records
        return before

    def change(self, request, gradients, numbers=None):
        lookup = request.lookup
        _native.update_table(self.table, lookup, gradients.numpy(), self.rule, _in_order(lookup, numbers))


class RankExecutor(Executor):
    """Carries out lookups by steps of the rows of one rank.

    Attributes:
        address: for other processes, whose ranks take part; None in a table that is not behind an engine.
        dirty: whether the host table may lack updates.
    """

    def __init__(self, table, update, ranked: RankRows, window: int, ranks: int = 1):
        """ranks: that train together."""
        super().__init__(table, update)
        self.address, self.window = ranked.address, window
        self._ranked, self._steps, self._several = ranked, ranked.steps, ranks > 1
        self._announced = self._begun = 0
        self.dirty = False

    def announce(self, request):
        rows = request.sorted.rows
        occurrences = [np.ones(len(rows), np.int32)] if self._several else []
        self._steps.announce(self._announced, rows, *occurrences)
        self._announced += 1

    def begin(self, request):
        self._steps.begin(self._begun)
        self._begun += 1
        self.dirty = True

    def drain(self):
        if self.dirty or self._several:
            self._steps.drain()
        self.dirty = False

    def statistics(self):
        return self._ranked.statistics()

    def close(self):
        self._ranked.close()


class EngineExecutor(RankExecutor):
    """The CPU behind a cache and the P2F engine: everything but the bus is as on a GPU."""

    def __init__(self, table, update, ranked: RankRows):
        """ranked: without a device."""
        config = ranked.address.flushing
        super().__init__(table, update, ranked, config.lookahead, config.ranks)

    def begin(self, request):
        self._lookup = request.lookup
        super().begin(request)

    def gather(self):
        values = torch.empty(len(self._lookup), self.table.dim, dtype=torch.float32, device=HOST)
        _native.gather_lookup(self._steps, self._lookup, values.numpy())
        return values

    def update(self, gradients, numbers=None):
        order = _in_order(self._lookup, numbers)
        _native.update_step(self._steps, self._lookup, gradients.numpy(), self.rule, order)
        self._steps.end()

    def skip(self):
        if self._several:  # other ranks may wait for the gradients of rows that they use, too
            nothing = torch.zeros(1, self.table.dim, dtype=torch.float32, device=HOST)
            self.update(nothing, np.zeros(len(self._lookup), np.int32))
        else:
            self._steps.copy_to_destination()
            self._steps.end()

    def replace(self, positions, records, wanted):
        records = np.array(records, np.float32)
        _native.exchange_records(self._steps, np.ascontiguousarray(positions, np.int64), records)
        return records if wanted else None
