"""The tables of several ranks: rank 0 makes them and runs their engines, the others attach."""

from __future__ import annotations

from typing import Dict, Optional

from ...data import KnowledgeGraph
from ...models import RowDims
from ...options import TrainConfig
from ...store import EmbeddingStore
from ...store.cache_policy import keeps_hot_rows
from ...store.rows.flush_config import StoreAddress
from ...store.rows.in_step_sync import exchanged_floats
from ..batches.edge_partition import EdgePartition
from ..log.counters import StoreCounters
from ..processes.process_group import ProcessGroup
from ..processes.step_exchange import ExchangeFloats, StepExchange
from ..tables.start_values import start_values
from ..tables.tables import Tables, entity_rounding, rank_flushing
from .replicas import ReplicatedTable


class RankTables(Tables):
    """Tables of one of several ranks. Draining is collective: all ranks do it after the same step.

    still: while true, nobody trains and the tables hold everything, so there is nothing to drain.
    """

    still = False

    def drain(self) -> None:
        if not self.still:
            super().drain()

    def _counters(self, statistics: Dict) -> StoreCounters:
        """Of this rank's entity rows, and of the flush threads if they run in this process."""
        own = [self.own_statistics(statistics)]
        return super()._counters({"ranks": own, "flush_workers": statistics["flush_workers"]})

    @staticmethod
    def own_statistics(statistics: Dict) -> Dict:
        """This rank's share of what a store's statistics() returns: the first, or the only one."""
        return statistics["ranks"][0]

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence."""
        for store in self.stores.values():
            store.fail(sentence)


class RowTables(RankTables):
    """Of ranks that train on batches of their own: they share the entities, and each has the other tables as a
    whole."""

    def __init__(self, dims: RowDims, entity: EmbeddingStore, replicated: Dict[str, ReplicatedTable],
                 collective: Optional[StepExchange] = None):
        """replicated: relations and, for TransR, projections. collective: of devices that synchronise in each step, for
        entities."""
        super().__init__(dims, entity, *(table.store for table in replicated.values()))
        self._replicated, self._collective = replicated, collective
        self._exchanges = [*filter(None, [collective]), *(table.exchange for table in replicated.values())]

    def connect(self, group: ProcessGroup, wanted: str) -> None:
        """Collective, before the first step. wanted: --peer."""
        for exchange in self._exchanges:
            exchange.connect(group, wanted)

    def fail(self, sentence: str) -> None:
        super().fail(sentence)
        for exchange in self._exchanges:
            exchange.fail(sentence)

    def addresses(self) -> Dict[str, dict]:
        """Where other ranks find each table, as JSON."""
        replicated = {name: table.address for name, table in self._replicated.items()}
        return {"entity": self.entity.address.to_json(), "collective": self._collective and self._collective.path,
                **replicated}


def host_tables(config: TrainConfig, graph: KnowledgeGraph, partition: EdgePartition, device=None) -> RowTables:
    """Allocate and fill all tables, and start the engine of entities. Raises InputError if the machine refuses the
    memory.

    device: the store.device.Device of rank 0, if the ranks compute on devices.
    """
    dims = config.model.dims
    flushing = rank_flushing(config, graph.n_entities, dims.entity)
    collective = _collective(config, flushing.max_rows_per_step, 0, device)
    relations = config.model.relation_rows(graph.n_relations)
    starts = start_values(config, {"entity": graph.n_entities, "relation": relations}, config.run.seed)
    entity = EmbeddingStore(
        graph.n_entities, dims.entity, config.loss.lr, device=device, rounding=entity_rounding(config),
        hot_rows=partition.hot_entities(graph) if keeps_hot_rows(flushing.policy) else (), flushing=flushing,
        exchange=collective and collective.native, start=starts["entity"].fill)
    return RowTables(dims, entity, {
        name: ReplicatedTable(config, name, relations, dim, 0, device, start=starts[name].fill)
        for name, dim in _replicated(dims).items()}, collective)


def attach_tables(config: TrainConfig, graph: KnowledgeGraph, addresses: Dict[str, dict], rank: int,
                  device=None) -> RowTables:
    """The tables of rank 0, for another rank and its device. Raises RuntimeError if rank 0 has ended."""
    dims = config.model.dims
    address = StoreAddress.from_json(addresses["entity"])
    collective = _collective(config, address.flushing.max_rows_per_step, rank, device, addresses["collective"])
    entity = EmbeddingStore.attach(address, rank, config.loss.lr, device, rounding=entity_rounding(config),
                                   exchange=collective and collective.native)
    return RowTables(dims, entity, {
        name: ReplicatedTable(config, name, config.model.relation_rows(graph.n_relations), dim, rank, device,
                              addresses[name])
        for name, dim in _replicated(dims).items()}, collective)


def _collective(config: TrainConfig, rows: int, rank: int, device,
                path: Optional[str] = None) -> Optional[StepExchange]:
    """rows: of a step. path: what rank 0 has told the others."""
    if not config.in_step_sync:
        return None
    return StepExchange(ExchangeFloats(exchanged_floats(rows)), rank, config.device.ranks, device, path)


def _replicated(dims: RowDims) -> Dict[str, int]:
    """Floats of a row, of each table that every rank has as a whole."""
    return {"relation": dims.relation, **({"projection": dims.projection} if dims.projection else {})}
