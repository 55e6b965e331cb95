"""Rows of a rank, as a store and an executor hold them: in place, or behind caches and the P2F engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from .. import _native
from ..errors import InputError
from .cache_policy import make_policy
from .rows.flush_config import FlushConfig, StoreAddress
from .rows.half_embeddings import Rounding, stochastic_rounded_rows

if TYPE_CHECKING:
    from .device.device import Device


class RankRows:
    """Rows of one rank.

    Attributes:
        steps: where its steps find them: DeviceRows with a device, else pointers (csrc/store/cached_rows.h).
        device: the store.device.Device that these are on, None for the CPU.
        flushes: whether rows are updated in steps alone: behind an engine, and in replicas.
        address: for the processes of other ranks, where there is an engine.
    """

    flushes = True

    steps: Any
    address: Optional[StoreAddress] = None

    @property
    def steps_run(self) -> int:
        """Steps of this rank that have ended."""
        return self.steps.steps_run

    def statistics(self) -> Optional[dict]:
        """Counters of the engine, see csrc/engine/engine.h; of another rank than 0, which has no flush threads, its
        own alone; None without an engine."""
        return None

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence, unless there is one already."""

    def close(self) -> None:
        """Stop what runs in the background, or leave the engine. What has not been drained is lost."""
        if self.device is not None:
            self.steps.close()


class InPlaceTable(RankRows):
    """Rows of one rank alone, updated in place: in the host table, or in a device's memory that holds all of it."""

    flushes = False

    def __init__(self, table: _native.HostTable, device: Optional[Device] = None, rounding: Optional[Rounding] = None):
        self.device = device
        if device is None:
            self.steps = stochastic_rounded_rows(_native.DirectRows(table), rounding)
        else:
            from .rows.resident_rows import ResidentRows  # here, because it imports torch

            self.steps = ResidentRows(table, device, rounding)

    @property
    def steps_run(self) -> int:
        return 0 if self.device is None else super().steps_run


class ReplicaRows(RankRows):
    """Rows of a table of which each of several ranks has a whole replica, alike in all of them."""

    def __init__(self, table: _native.HostTable, replica: _native.Replica, learning_rate: float,
                 device: Optional[Device] = None):
        """table: the same for all ranks, which begin with what it holds; rank 0 trains it, or copies its device's
        replica to the host."""
        self.device, self._collective = device, replica
        if device is None:
            own = table if replica.rank == 0 else _native.HostTable(table.rows, table.dim)
            self.steps = _native.ReplicatedRows(table, own, replica, learning_rate)
        else:
            from .rows.replicated_rows import ReplicatedRows  # here, because it imports torch

            self.steps = ReplicatedRows(table, replica, device)

    def fail(self, sentence: str) -> None:
        self._collective.fail(sentence)


class ClientRows(RankRows):
    """The rows of one rank of an engine."""

    def _make_steps(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device,
                    rounding: Optional[Rounding] = None, exchange: Any = None) -> None:
        """exchange: of ranks that synchronise in each step. Raises InputError where the device cannot read host memory
        in place."""
        self._client, self.device = client, device
        if device is None:
            self.steps = stochastic_rounded_rows(_native.CachedRows(table, client), rounding)
            return
        from .rows.cached_rows import CachedRows  # here, because they import torch
        from .rows.flushed_rows import FlushedRows

        try:
            if config.mode == "direct":
                self.steps = CachedRows(table, client, config, device, rounding, exchange)
            else:
                self.steps = FlushedRows(table, client, config, device, rounding)
        except _native.DeviceError as error:
            raise InputError(f"the GPU cannot read the table in host memory: {error}; raise the limit of locked memory "
                             "(ulimit -l unlimited, in a container --ulimit memlock=-1), or use --flush none if the "
                             "table fits the GPU") from error

    @property
    def steps_run(self) -> int:
        return self._client.statistics()["steps"]

    def statistics(self) -> Optional[dict]:
        return {"ranks": [self._client.statistics()], "flush_workers": []}

    def fail(self, sentence: str) -> None:
        self._client.fail(sentence)


class EngineTable(ClientRows):
    """The engine of one table, and the rows of rank 0."""

    def __init__(self, table: _native.HostTable, learning_rate: float, config: FlushConfig,
                 hot_rows: Sequence[Optional[Sequence[int]]] = (), device: Optional[Device] = None, update: Any = None,
                 rounding: Optional[Rounding] = None, exchange: Any = None):
        """Start the flush threads.

        update: the _native.RowUpdate by which gradients of several ranks change a row; row-wise Adagrad in DGL-KE's
        order if not given.

        hot_rows: of each rank, ids by expected use, most used first, for the static policy. device: a
        store.device.Device that the cache and the step of rank 0 are on. rounding: of a table in half precision.
        exchange: of ranks that synchronise in each step, a _native.Exchange.
        """
        caches = []
        if config.slots:
            caches = [make_policy(config.policy, config.slots, table.rows, hot_rows[rank] if hot_rows else None)
                      for rank in range(1 if config.same_steps else config.ranks)]
        noise = (rounding.seed, rounding.table) if rounding else ()
        self._engine = _native.Engine(table.records, table.dim, table.state_floats,
                                      update or _native.RowAdagradUpdate(learning_rate), caches, config,
                                      device is not None, table.element, *noise)
        self._make_steps(table, self._engine.client(0), config, device, rounding, exchange)
        self.address = StoreAddress(table.path, table.rows, table.dim, table.state_floats, self._engine.segment_path,
                                    device is not None, config)

    def statistics(self) -> Optional[dict]:
        return self._engine.statistics()

    def close(self) -> None:
        super().close()
        self._engine.close()


class RemoteTable(ClientRows):
    """The rows of another rank than 0, in a process of its own."""

    def __init__(self, table: _native.HostTable, address: StoreAddress, rank: int, device: Optional[Device] = None,
                 rounding: Optional[Rounding] = None, exchange: Any = None):
        """device, rounding, exchange: as for EngineTable; all ranks have one, or none has."""
        self.address = address
        self._make_steps(table, _native.attach_rank(address.segment, rank), address.flushing, device, rounding,
                         exchange)

    def close(self) -> None:
        super().close()
        del self.steps, self._client
