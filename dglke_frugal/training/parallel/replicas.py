"""Tables of which each of several ranks has a whole replica: relations and projections, which all of them train."""

from __future__ import annotations

from typing import Callable, Dict, Optional

from ... import _native
from ...models import find_model
from ...options import TrainConfig
from ...store import EmbeddingStore
from ...store.device.shared_segment import SharedSegment
from ...store.rows.gathering import Gathering
from ..plan.step_bytes import factor_floats
from ..processes.process_group import ProcessGroup
from ..processes.step_exchange import ExchangeFloats, StepExchange

ENTRIES = {"relation": 1, "projection": 2}  # of a step: csrc/step/announce.h


def replica_floats(rows: int, dim: int, entries: int) -> ExchangeFloats:
    """What ranks send each other for the sums of gradients of so many rows of a step, at most."""
    floats = _native.Replica.floats(rows, dim, entries)
    return ExchangeFloats(floats, squares=floats)  # the two regions take turns


class RankExchange:
    """A StepExchange in memory that rank 0 makes and the others find.

    Attributes:
        native: what kernels take.
        path: for the other ranks.
    """

    def __init__(self, size: ExchangeFloats, rank: int, ranks: int, device=None, path: Optional[str] = None):
        """path: what rank 0 has told."""
        self._segment = SharedSegment(size.segment_bytes(ranks)) if path is None else None
        shared = SharedSegment.attach(path) if path else self._segment.array
        self.path = path or self._segment.path
        self._exchange = StepExchange(shared, size, rank, ranks, device)
        self.native = self._exchange.native

    def connect(self, group: ProcessGroup, wanted: str) -> None:
        """Collective, before the first step. wanted: --peer."""
        self._exchange.connect(group, wanted)
        if self._segment is not None:
            self._segment.close()

    def fail(self, sentence: str) -> None:
        """Let nobody wait any more."""
        self._exchange.fail(sentence)


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
        model, positives = find_model(config.model.model_name), config.batch.positives
        rows, entries = min(relations, config.batch.most_edges), ENTRIES[name]
        factors = device is not None and model.matrices == name
        size = (ExchangeFloats(factor_floats(model, config.model.dims, positives)) if factors else
                replica_floats(rows, dim, entries))
        self.exchange = RankExchange(size, rank, config.device.ranks, device, address and address["segment"])
        native = self.exchange.native
        replica = Gathering(native, positives) if factors else _native.Replica(native, rows, dim, entries)
        table = address and _native.HostTable(address["table"], relations, dim)
        self.store = EmbeddingStore(relations, dim, config.loss.lr, shared=True, device=device, table=table,
                                    replica=replica, start=start)
        self.address = address or {"table": self.store.path, "segment": self.exchange.path}
