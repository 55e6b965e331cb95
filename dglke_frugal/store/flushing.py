"""Rows of a rank, as a store and an executor hold them: in place, or behind caches and the P2F engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Sequence, Union

from .. import _native
from .cache_policy import make_policy
from .flush_config import FlushConfig, StoreAddress
from .gathering import Gathering
from .half_embeddings import Rounding, rounded_rows

STEPS_APART = 8  # that ranks with the same steps may be, before the one that registers them waits for another


class RankRows:
    """Rows of one rank.

    Attributes:
        steps: where its steps find them: DeviceRows with a device, else pointers (csrc/store/cached_rows.h).
        device: the store.device.Device that these are on, None for the CPU.
        flushes: whether rows are updated in steps alone: behind an engine, and in replicas.
        address: for the processes of other ranks.
    """

    flushes = True

    steps: Any
    address: Optional[StoreAddress] = None

    def _make_steps(self, table: _native.HostTable, port: _native.RankPort, slots: int, config: FlushConfig, device,
                    rounding: Optional[Rounding] = None, exchange=None) -> None:
        self._port, self.device = port, device
        if device is None:
            self.steps = rounded_rows(_native.CachedRows(table, port, slots), rounding)
        else:
            from .make_engine_rows import make_engine_rows  # here, because it imports torch

            self.steps = make_engine_rows(table, port, slots, config, device, rounding, exchange)

    @property
    def steps_run(self) -> int:
        """Steps of this rank that have ended."""
        return self._port.statistics()["steps"]

    def statistics(self) -> Optional[dict]:
        """Counters of the engine, see csrc/engine/engine.h; of another rank than 0, which has no flush threads, its
        own alone; None without an engine."""
        return {"ranks": [self._port.statistics()], "flush_workers": []}

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence, unless there is one already."""
        self._port.fail(sentence)

    def close(self) -> None:
        """Stop what runs in the background, or leave the engine. What has not been drained is lost."""
        if self.device is not None:
            self.steps.close()


class PlainRows(RankRows):
    """Rows of one rank alone, updated in place: in the host table, or in a device's memory that holds all of it."""

    flushes = False

    def __init__(self, table: _native.HostTable, device=None, rounding: Optional[Rounding] = None):
        self.device = device
        if device is None:
            self.steps = rounded_rows(_native.DirectRows(table), rounding)
        else:
            from .device_rows import ResidentRows  # here, because it imports torch

            self.steps = ResidentRows(table, device, rounding)

    @property
    def steps_run(self):
        return 0 if self.device is None else self.steps.steps_run

    def statistics(self):
        return None

    def fail(self, sentence):
        pass


class ReplicaRows(RankRows):
    """Rows of a table of which each of several ranks has a whole replica, alike in all of them."""

    def __init__(self, table: _native.HostTable, replica: Union[_native.Replica, Gathering], learning_rate: float,
                 device=None):
        """table: the same for all ranks, which begin with what it holds; rank 0 trains it, or brings its device's
        replica home. replica: of sums; or on a device a Gathering."""
        self.device, self._meeting = device, replica.exchange if isinstance(replica, Gathering) else replica
        if device is None:
            own = table if replica.rank == 0 else _native.HostTable(table.rows, table.dim)
            self.steps = _native.ReplicatedRows(table, own, replica, learning_rate)
        else:
            from .replicated_rows import FactorRows, ReplicatedRows  # here, because it imports torch

            rows = FactorRows if isinstance(replica, Gathering) else ReplicatedRows
            self.steps = rows(table, replica, device)

    @property
    def steps_run(self):
        return self.steps.steps_run

    def statistics(self):
        return None

    def fail(self, sentence):
        self._meeting.fail(sentence)


class FlushedRows(RankRows):
    """The engine of one table, and the rows of rank 0."""

    def __init__(self, table: _native.HostTable, learning_rate: float, config: FlushConfig,
                 hot_rows: Sequence[Optional[Sequence[int]]] = (), device=None, update=None,
                 rounding: Optional[Rounding] = None, exchange=None):
        """Start the flush threads.

        update: the _native.RowUpdate by which gradients of several ranks change a row; row-wise Adagrad in DGL-KE's
        order if not given.

        hot_rows: of each rank, ids by expected use, most used first, for the static policy. device: a
        store.device.Device that the cache and the step of rank 0 are on. rounding: of a table in halves. exchange: of
        ranks that meet, a _native.Exchange.
        """
        lookahead, poll, in_flight = config.lookahead + (STEPS_APART if config.same_steps else 0), 0, 0
        if device is not None:
            from .device_rows import STEPS_ON_DEVICE  # here, because it imports torch
            from .engine_rows import POLL_MICROSECONDS, STEPS_IN_FLIGHT

            lookahead, poll = lookahead + STEPS_IN_FLIGHT, POLL_MICROSECONDS
            in_flight = 0 if config.host_read == "copy" else STEPS_ON_DEVICE  # copies find all values at home
        keeps = config.keeps_reused and in_flight > 0
        evicts = in_flight > 0 and config.policy != "static" and not (config.carried or config.meets)
        horizon = min(in_flight, config.lookahead - 1) * keeps
        caches = []
        if config.slots and config.mode != "off":
            caches = [make_policy(config.policy, config.slots, table.rows, hot_rows[rank] if hot_rows else None)
                      for rank in range(1 if config.same_steps else config.ranks)]
        for_engine = replace(config, lookahead=lookahead, poll_microseconds=poll, in_flight_steps=in_flight,
                             keeps_reused=keeps, evicts_in_flight=evicts, horizon=horizon)
        noise = (rounding.seed, rounding.table) if rounding else ()
        self._engine = _native.Engine(table.records, table.dim, table.state_floats,
                                      update or _native.RowAdagradUpdate(learning_rate), caches, for_engine,
                                      table.element, *noise)
        slots = tuple(cache.slots for cache in caches) or (0,)
        slots *= config.ranks // len(slots)
        self._make_steps(table, self._engine.port(0), slots[0], config, device, rounding, exchange)
        host_read = config.host_read if device is None else self.steps.host_read
        self.address = StoreAddress(table.path, table.rows, table.dim, table.state_floats, self._engine.segment_path,
                                    slots, replace(config, host_read=host_read))

    def statistics(self):
        return self._engine.statistics()

    def close(self):
        super().close()
        self._engine.close()


class AttachedRows(RankRows):
    """The rows of another rank than 0, in a process of its own."""

    def __init__(self, table: _native.HostTable, address: StoreAddress, rank: int, device=None,
                 rounding: Optional[Rounding] = None, exchange=None):
        """device, rounding, exchange: as for FlushedRows; all ranks have one, or none has."""
        self.address = address
        self._make_steps(table, _native.attach_rank(address.segment, rank), address.slots[rank], address.flushing,
                         device, rounding, exchange)

    def close(self):
        super().close()
        del self.steps, self._port
