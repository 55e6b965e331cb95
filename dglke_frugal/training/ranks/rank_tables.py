"""The tables of several ranks: rank 0 makes them and runs their engines, the others attach."""

from __future__ import annotations

from typing import Dict, Optional

import numpy as np

from ...config import TrainConfig
from ...data import KnowledgeGraph
from ...store import EmbeddingStore, FlushConfig
from ...store.flush_config import StoreAddress
from ..batches.edge_partition import EdgePartition
from ..log.counters import StoreCounters
from ..memory.memory_plan import rank_staging_bytes
from ..memory.row_bytes import row_bytes
from ..start_values import table_dims
from ..tables import Tables, entity_rounding


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

    def addresses(self) -> Dict[str, dict]:
        """Where other ranks find each table, as JSON."""
        return {name: store.address.to_json() for name, store in self.stores.items()}

    def fail(self, sentence: str) -> None:
        """Stop all ranks with this sentence."""
        for store in self.stores.values():
            store.fail(sentence)


def host_tables(config: TrainConfig, graph: KnowledgeGraph, partition: EdgePartition, device=None) -> RankTables:
    """Allocate and fill all tables, and start their engines. Raises InputError if the machine refuses the memory.

    device: the store.device.Device of rank 0, if the ranks compute on devices.
    """
    dims, lr, store = table_dims(config), config.loss.lr, config.store
    n_relations = config.model.relation_rows(graph.n_relations)
    own_relations = [_with_inverses(ids, graph.n_relations, n_relations) for ids in partition.own_relations(graph)]
    edges = config.batch.most_edges
    entities = 3 * edges  # heads, tails and negatives
    host_read = store.host_read

    def flushing(rows: int, dim: int, entries: int, rows_per_step: int, gradients: int, slots: int, policy: str,
                 dtype: str = "fp32") -> FlushConfig:
        used = min(rows, rows_per_step)
        slots = 0 if store.flush == "none" else slots
        return FlushConfig(used, entries, partition.ranks, gradients,
                           mode={"none": "off"}.get(store.flush, store.flush or "p2f"), lookahead=store.lookahead,
                           flush_threads=config.flush_threads, slots=slots, policy=policy, host_read=host_read,
                           value_path="host_row" if config.writes_host_rows else "staging",
                           staging_bytes=rank_staging_bytes(used, gradients, slots, dim, dtype, partition.ranks))

    def relations(dim: int, entries: int) -> EmbeddingStore:
        # What a rank has for itself stays in its cache; what several train travels as gradients.
        slots = max(len(ids) for ids in own_relations)
        return EmbeddingStore(
            n_relations,
            dim,
            lr,
            hot_rows=own_relations,
            device=device,
            flushing=flushing(n_relations, dim, entries, edges, entries * edges, slots, "static"),
        )

    dtype = config.model.row_dtype
    entity = EmbeddingStore(
        graph.n_entities, dims.entity, lr, device=device, rounding=entity_rounding(config),
        hot_rows=partition.hot_entities(graph) if store.cache_policy == "static" else (),
        flushing=flushing(graph.n_entities, dims.entity, 2, entities, entities,
                          store.cache_slots(graph.n_entities, row_bytes(dims.entity, dtype)), store.cache_policy, dtype))
    host_read = entity.address.flushing.host_read  # the largest table decides for all, and rank 0 for the others
    tables = RankTables(
        dims, entity, relations(dims.relation, 1), relations(dims.projection, 2) if dims.projection else None
    )
    tables.fill(config, config.run.seed)
    return tables


def _with_inverses(ids: np.ndarray, relations: int, rows: int) -> np.ndarray:
    """Relations of a rank and, if the table has rows for them, their inverses, which the same edges train."""
    return ids if rows == relations else np.concatenate([ids, ids + relations])


def attach_tables(config: TrainConfig, addresses: Dict[str, dict], rank: int, device=None) -> RankTables:
    """The tables of the leader, for another rank and its device. Raises RuntimeError if the leader has ended."""

    def attach(name: str) -> Optional[EmbeddingStore]:
        if name not in addresses:
            return None
        address = StoreAddress.from_json(addresses[name])
        rounding = entity_rounding(config) if name == "entity" else None
        return EmbeddingStore.attach(address, rank, config.loss.lr, device, rounding=rounding)

    return RankTables(table_dims(config), attach("entity"), attach("relation"), attach("projection"))
