"""Tables of which each of several ranks has a whole replica: relations and projections, which all of them train."""

from __future__ import annotations

from typing import Callable, Dict, Optional

from ... import _native
from ...options import TrainConfig
from ...store import EmbeddingStore
from ..processes.step_exchange import ExchangeFloats, StepExchange
from ..tables.tables import ENTRIES


class ReplicatedTable:
    """One rank's replica.

    Attributes:
        store: which steps train.
        exchange: with the other ranks.
        address: where the other ranks find the table and the exchange, as JSON; they have it from rank 0.
    """

    def __init__(self, config: TrainConfig, name: str, relations: int, dim: int, rank: int, device=None,
                 address: Optional[Dict[str, str]] = None,
                 start: Optional[Callable[[_native.HostTable], None]] = None):
        """start: of rank 0, sets the start values."""
        rows, entries = min(relations, config.batch.most_edges), ENTRIES[name]
        self.exchange = StepExchange(ExchangeFloats.of_sums(rows, dim, entries), rank, config.device.ranks, device,
                                     address and address["segment"])
        replica = _native.Replica(self.exchange.native, rows, dim, entries)
        table = address and _native.HostTable(address["table"], relations, dim)
        self.store = EmbeddingStore(relations, dim, config.loss.lr, shared=True, device=device, table=table,
                                    replica=replica, start=start)
        self.address = address or {"table": self.store.path, "segment": self.exchange.path}
