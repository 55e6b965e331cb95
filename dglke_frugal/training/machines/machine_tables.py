"""The tables of one of several machines: the entities that it owns, and replicas of all relations."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from ... import _native
from ...data import KnowledgeGraph
from ...models import RowDims
from ...options import TrainConfig
from ...store import EmbeddingStore
from ...store.flushing import RankRows
from ...store.rows.half_embeddings import stochastic_rounded_rows
from ..batches.sampler import Batches, Sampler
from ..tables.start_values import start_values
from ..tables.tables import ENTRIES, entity_rounding
from .boundary import Boundaries
from .owned_tables import OwnedTables
from .table_files import TableFiles
from .transport import Transport


class _SteppedRows(RankRows):
    """Rows of a store whose blocks for other machines are made at boundaries."""

    device = None

    def __init__(self, steps, native):
        """steps: what steps compute with. native: the rows beneath, that have blocks."""
        self.steps, self.native = steps, native

    @property
    def steps_run(self):
        return self.native.steps_run

    def statistics(self):
        return None

    def fail(self, sentence):
        pass


class MachineTables(OwnedTables):
    """Tables of one of several machines. What steps need travels at boundaries (boundary.py). Draining is
    collective."""

    def __init__(self, dims: RowDims, stores: Dict[str, EmbeddingStore], natives: Dict[str, Any],
                 owners: _native.RowOwners, transport: Transport, others: Sequence[Optional[Sampler]],
                 files_of_all: Optional[TableFiles] = None):
        """natives: _native.MachineRows or MachineReplica by table. others: samplers of the other machines, by
        machine."""
        super().__init__(dims, stores, owners, transport.machine, files_of_all)
        entities, *replicas = natives.values()
        self.boundaries = Boundaries(transport, entities, replicas)
        self._posted = False
        self._natives, self._samplers = natives, others
        self._batches: List[Optional[Batches]] = []
        self._next_step: Optional[int] = None

    def announce(self, batch):
        if batch.step != self._next_step:
            self._close_batches()
            self._batches = [sampler and sampler.batches(batch.step) for sampler in self._samplers]
        self._next_step = batch.step + 1
        batches = [batch if others is None else next(others) for others in self._batches]
        for name, native in self._natives.items():
            native.announce_batches(batches, *([name == "projection"] if name in ENTRIES else []))

    def _close_batches(self) -> None:
        for each in filter(None, self._batches):
            each.close()
        self._batches = []

    def begin(self, step):
        self.boundaries.begin(step)
        super().begin(step)
        self.boundaries.begun(step)

    @property
    def early_done(self) -> Optional[Callable[[], None]]:
        """To be called in a step when relations are done, and the entities that other machines wait for. None where
        these are written by the step's end only, as rows in half precision are."""
        return self._post if self.entity.stored.dtype == np.float32 else None

    def _post(self) -> None:
        for name, store in self.stores.items():
            if name != "entity":
                store.steps.end()
        self.boundaries.post_urgent()
        self._posted = True

    def end(self):
        self.entity.steps.end()
        if not self._posted:
            self._post()
        self._posted = False

    def drain(self):
        self.boundaries.drain()

    def close(self):
        self._close_batches()
        self.boundaries.close()
        super().close()


def machine_tables(config: TrainConfig, graph: KnowledgeGraph, owners: _native.RowOwners, transport: Transport,
                   others: Sequence[Optional[Sampler]],
                   files_of_all: Optional[TableFiles] = None) -> MachineTables:
    """Allocate and fill what this machine holds. Raises InputError if the machine refuses the memory."""
    dims, lr, seed = config.model.dims, config.loss.lr, config.run.seed
    machine, machines = transport.machine, transport.machines
    relations = config.model.relation_rows(graph.n_relations)
    starts = start_values(config, {"entity": graph.n_entities, "relation": relations}, seed)
    natives: Dict[str, Any] = {}
    rounding = entity_rounding(config)

    def owned(table: _native.HostTable) -> RankRows:
        noise = (rounding.seed, rounding.table) if rounding else ()
        natives["entity"] = _native.MachineRows(table, owners, machine, lr, *noise)
        return _SteppedRows(stochastic_rounded_rows(natives["entity"], rounding), natives["entity"])

    def replica(name: str) -> Callable[[_native.HostTable], RankRows]:
        def rows(table: _native.HostTable) -> RankRows:
            most = min(relations, config.batch.most_edges)
            natives[name] = _native.MachineReplica(table, most, ENTRIES[name], machine, machines, lr)
            return _SteppedRows(natives[name], natives[name])

        return rows

    stores = {"entity": EmbeddingStore(owners.count(machine), dims.entity, lr, rounding=rounding, make_rows=owned,
                                       start=lambda table: starts["entity"].fill(table, owners=owners, worker=machine))}
    for name, dim in (("relation", dims.relation), ("projection", dims.projection)):
        if dim:
            stores[name] = EmbeddingStore(relations, dim, lr, make_rows=replica(name), start=starts[name].fill)
    return MachineTables(dims, stores, natives, owners, transport, others, files_of_all)
