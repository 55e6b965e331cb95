"""Tables of which each of several ranks has a whole replica: relations and projections, which all of them train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Optional

from ... import _native
from ...models import Model, RowDims, find_model
from ...options import TrainConfig
from ...store import EmbeddingStore
from ...store.device.shared_segment import SharedSegment
from ...store.rows.gathering import Gathering
from ..plan.matrix_step_bytes import factor_floats
from ..processes.process_group import ProcessGroup
from ..processes.step_exchange import ExchangeFloats, StepExchange, segment_bytes
from ..tables.start_values import table_dims

ENTRIES = {"relation": 1, "projection": 2}  # of a step: csrc/step/announce.h


@dataclass(frozen=True)
class ReplicaSize:
    """What of a step decides how many floats ranks exchange: rows at most, floats and entries of each."""

    rows: int
    dim: int
    entries: int

    @classmethod
    def of(cls, config: TrainConfig, name: str, relations: int, dim: int) -> "ReplicaSize":
        """Of the table `name` with `relations` rows of `dim` floats."""
        return cls(min(relations, config.batch.most_edges), dim, ENTRIES[name])

    @property
    def scores(self) -> int:
        """Floats of the region of raw scores."""
        return _native.Replica.floats(self.rows, self.dim, self.entries)

    squares = scores  # of that of mean squares, which takes turns with it
    weights = 1  # nobody uses it


@dataclass(frozen=True)
class FactorSize:
    """The same where ranks gather what gradients of matrices are made of."""

    scores: int
    weights: int = 1  # nothing goes through the other regions
    squares: int = 4

    @classmethod
    def of(cls, model: Model, dims: RowDims, positives: int) -> "FactorSize":
        """Of a model that has matrices, and so many positives of a rank's step at most."""
        return cls(factor_floats(model, dims, positives))


@dataclass(frozen=True)
class CollectiveSize:
    """Floats that devices publish in a step for rows that several of them change (store/rows/in_step_sync.py)."""

    scores: int
    weights: int = 1  # nothing goes through the other regions
    squares: int = 4


class RankExchange:
    """A StepExchange in memory that rank 0 makes and the others find.

    Attributes:
        native: what kernels take.
        path: for the other ranks.
    """

    def __init__(self, size: ExchangeFloats, rank: int, ranks: int, device=None, path: Optional[str] = None):
        """size: ReplicaSize, FactorSize or CollectiveSize. path: what rank 0 has told."""
        self._segment = SharedSegment(segment_bytes(size, ranks)) if path is None else None
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

    def close(self) -> None:
        """After all ranks have done their last step."""
        self._exchange.close()


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
        factors = device is not None and model.matrices == name
        size = (FactorSize.of(model, table_dims(config), positives) if factors else
                ReplicaSize.of(config, name, relations, dim))
        self.exchange = RankExchange(size, rank, config.device.ranks, device, address and address["segment"])
        native = self.exchange.native
        replica = (Gathering(native, positives) if factors else
                   _native.Replica(native, size.rows, dim, size.entries))
        table = address and _native.HostTable(address["table"], relations, dim)
        self.store = EmbeddingStore(relations, dim, config.loss.lr, shared=True, device=device, table=table,
                                    replica=replica, start=start)
        self.address = address or {"table": self.store.path, "segment": self.exchange.path}
