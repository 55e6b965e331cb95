"""The embedding tables of a model, and how a step reaches their rows."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

import numpy as np

from ...data import KnowledgeGraph
from ...models import RowDims
from ...options import TrainConfig, state_floats
from ...store import EmbeddingStore, FlushConfig
from ...store.embedding_store import write_rows
from ...store.row_bytes import row_bytes
from ...store.rows.flush_config import rows_come_again
from ...store.rows.half_embeddings import Rounding
from ..log.counters import StoreCounters
from .start_values import STREAMS, start_values


ENTRIES = {"relation": 1, "projection": 2}  # of a step: csrc/step/announce.h
RANK_STAGING_BYTES = 64 << 20  # of updates on their way to the host; more than a step needs only speeds things up


def entity_flushing(config: TrainConfig, n_entities: int, dim: int) -> Optional[FlushConfig]:
    """How entity rows are cached and flushed, or None if they are updated in the host table in place.

    Relations of one rank are always updated in place: nobody else needs them, and they are few.
    """
    if not config.uses_engine:
        return None
    store, rows = config.store, min(n_entities, config.batch.most_entities)
    return FlushConfig(max_rows_per_step=rows, mode=config.flush, keeps_reused=rows_come_again(n_entities, rows),
                       lookahead=store.lookahead, flush_threads=config.flush_threads,
                       slots=store.cache_slots(n_entities, row_bytes(dim, config.model.row_dtype)),
                       policy=store.cache_policy)


def rank_flushing(config: TrainConfig, n_entities: int, dim: int) -> FlushConfig:
    """The same of several data-parallel ranks, which always have an engine: --flush none is no cache and one thread."""
    store, ranks, gradients = config.store, config.device.ranks, 3 * config.batch.most_edges  # heads, tails, negatives
    rows, of_row = min(n_entities, gradients), row_bytes(dim, config.model.row_dtype)
    uncached = config.flush == "none"
    slots = 0 if uncached else store.cache_slots(n_entities, of_row)
    # A plan asks for at most one write-back per slot, or per row that any rank uses. Twice that, because the gradients
    # of a row, which are in float32, do not wrap around the end of the ring.
    sent = 2 * (gradients * row_bytes(dim) + min(slots, ranks * rows) * of_row)
    return FlushConfig(max_rows_per_step=rows, ranks=ranks, mode="sync" if uncached else config.flush,
                       lookahead=store.lookahead, flush_threads=1 if uncached else config.flush_threads, slots=slots,
                       policy=store.cache_policy, staging_bytes=max(sent, min(8 * rows * of_row, RANK_STAGING_BYTES)))


def entity_rounding(config: TrainConfig, columns=()) -> Optional[Rounding]:
    """By what entity rows in half precision are rounded, None for rows in float32. columns: see Rounding."""
    model = config.model
    return Rounding(model.row_dtype, config.run.seed, STREAMS["entity"], columns) if model.is_half else None


def hot_entities(graph: KnowledgeGraph, edges: Any = slice(None)) -> np.ndarray:
    """Entity ids by degree in the training graph, or in some of its edges, highest first: the order of expected use."""
    degree = sum(np.bincount(ids[edges], minlength=graph.n_entities) for ids in (graph.train.head, graph.train.tail))
    return np.argsort(-degree, kind="stable")


class Tables:
    """Entities, relations and, for TransR, projections.

    Rows of a step are announced ahead, so that the store can bring them in and flush in the order of next use.

    Attributes:
        stores: the tables that there are, by name.
    """

    def __init__(self, dims: RowDims, entity: EmbeddingStore, relation: EmbeddingStore,
                 projection: Optional[EmbeddingStore] = None):
        self.dims, self.entity, self.relation, self.projection = dims, entity, relation, projection
        every = {"entity": entity, "relation": relation, "projection": projection}
        self.stores: Dict[str, EmbeddingStore] = {name: store for name, store in every.items() if store is not None}

    @classmethod
    def create(cls, config: TrainConfig, n_entities: int, n_relations: int, seed: int, hot_entities=None,
               device=None) -> "Tables":
        """All tables of one rank, filled with start values that depend on `seed` alone.

        hot_entities: entity ids by expected use, most used first, for caches that are filled once. device: a
        store.device.Device that steps compute on; relations and projections then lie there as a whole.
        Raises InputError if the machine refuses the memory.
        """
        dims, lr, optimizer = config.model.dims, config.loss.lr, config.loss.optimizer
        starts = start_values(config, {"entity": n_entities, "relation": n_relations}, seed)
        entity = EmbeddingStore(n_entities, dims.entity, lr, flushing=entity_flushing(config, n_entities, dims.entity),
                                hot_rows=[hot_entities], device=device, rounding=entity_rounding(config),
                                state_floats=state_floats(optimizer, dims.entity), start=starts["entity"].fill)
        relation = EmbeddingStore(n_relations, dims.relation, lr, device=device,
                                  state_floats=state_floats(optimizer, dims.relation), start=starts["relation"].fill)
        projection = EmbeddingStore(n_relations, dims.projection, lr, device=device,
                                    start=starts["projection"].fill) if dims.projection else None
        return cls(dims, entity, relation, projection)

    def announce(self, batch) -> None:
        """The rows of a coming step."""
        self.entity.steps.announce_entities(batch)
        self.relation.steps.announce_relations(batch)
        if self.projection is not None:
            self.projection.steps.announce_projections(batch)

    def begin(self, step: int) -> None:
        """Wait until the rows of the step may be read."""
        for store in self.stores.values():
            store.steps.begin(step)

    def end(self) -> None:
        """The step has written its rows."""
        for store in self.stores.values():
            store.steps.end()

    def close(self) -> None:
        """Stop what runs in the background."""
        for store in self.stores.values():
            store.close()

    def drain(self) -> None:
        """Between two steps: wait until the tables hold every update."""
        for store in self.stores.values():
            store.drain()

    def counters(self) -> Optional[StoreCounters]:
        """Counts of the work of cache and engine so far, or None if rows are updated in place."""
        statistics = self.entity.statistics()
        return None if statistics is None else self._counters(statistics)

    def _counters(self, statistics: Dict) -> StoreCounters:
        return StoreCounters.of(statistics, self.entity.embedding_floats, self.entity.stalls)

    def arrays(self) -> Dict[str, np.ndarray]:
        """Everything that training changes, by name: views of the drained tables, as they are kept, and of their
        optimizer states."""
        self.drain()
        return {f"{name}{suffix}": array for name, store in self.stores.items()
                for suffix, array in (("", store.stored), ("_state", store.state))}

    def embeddings(self) -> Dict[str, Any]:
        """The drained tables by name, (rows, dim) float32, of which slices of rows are read and written."""
        self.drain()
        return {name: store.embeddings for name, store in self.stores.items()}

    def row_id(self, name: str, row: int) -> int:
        """The id of a row of `embeddings`."""
        return row

    def files(self, folder: Path, stem: str) -> Dict[str, Path]:
        """Where each table is saved, under DGL-KE's file names; stem: DATASET_MODEL."""
        endings = {"entity": "_entity", "relation": "_relation", "projection": "projection"}
        return {name: folder / f"{stem}{endings[name]}.npy" for name in self.stores}

    def save(self, folder: Path, stem: str, entity_dtype: str = "fp32") -> Dict[str, int]:
        """Write the tables, entities as float32 or with "fp16" as float16; returns the CRC-32 of each file by its name.
        Raises InputError."""
        embeddings = self.embeddings()
        return {file.name: write_rows(file, embeddings[name], entity_dtype if name == "entity" else "fp32")
                for name, file in self.files(folder, stem).items()}

    def load(self, folder: Path, stem: str) -> None:
        """Read what `save` has written; optimizer states are set to 0. Raises InputError."""
        self.drain()
        for name, file in self.files(folder, stem).items():
            self.stores[name].load(file)
