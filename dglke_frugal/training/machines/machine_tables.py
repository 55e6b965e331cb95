"""The tables of one of several machines: the entities that it owns, and replicas of all relations."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from ... import _native
from ...config import TrainConfig
from ...data import KnowledgeGraph
from ...models import RowDims
from ...store import EmbeddingStore
from ...store.flushing import RankRows
from ...store.half_embeddings import rounded_rows
from ..batches.sampler import Batches, Sampler
from ..ranks.replicas import ENTRIES
from ..start_values import start_values, table_dims
from ..tables import Tables, entity_rounding
from .boundary import Boundaries
from .transport import Transport


class _SteppedRows(RankRows):
    """Rows as a store holds them whose blocks others make."""

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


class OwnedRows:
    """An array of rows of which this machine has those that it owns, by id: (entities, ...).

    Reads and writes blocks of neighbouring ids: of a block that is written, own rows are kept.
    """

    def __init__(self, rows: np.ndarray, owners: _native.RowOwners, machine: int):
        """rows: of this machine, by their local numbers; any array that is indexed by arrays of them."""
        self.rows, self.owners, self.machine = rows, owners, machine
        self.shape, self.dtype, self.ndim = (owners.rows, *rows.shape[1:]), rows.dtype, len(rows.shape)
        self.nbytes = owners.rows * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def __setitem__(self, block: slice, values: np.ndarray) -> None:
        ids = np.arange(*block.indices(self.shape[0]), dtype=np.int64)
        own = np.flatnonzero(self.owners.owner(ids) == self.machine)
        self.put(self.owners.local(ids[own]), values[own])

    def put(self, local: np.ndarray, values: np.ndarray) -> None:
        """Set rows by their local numbers."""
        self.rows[local] = values

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Own rows by id, (n, ...)."""
        return self.rows[self.owners.local(ids)]


class MachineTables(Tables):
    """Tables of one of several machines. What steps need travels at boundaries (boundary.py); draining is collective.

    still: while true, the tables hold everything and nobody trains.
    """

    def __init__(self, dims: RowDims, stores: Dict[str, EmbeddingStore], natives: Dict[str, Any],
                 owners: _native.RowOwners, transport: Transport, others: Sequence[Optional[Sampler]]):
        """natives: _native.MachineRows or MachineReplica by table. others: samplers of the other machines, by machine."""
        super().__init__(dims, *stores.values())
        self.owners, self.machine = owners, transport.machine
        self.boundaries = Boundaries(transport, [*natives.values()])
        self._natives, self._samplers = natives, others
        self._batches: List[Optional[Batches]] = []
        self._next_step: Optional[int] = None

    def announce(self, batch):
        if batch.step != self._next_step:
            self._open_batches(batch.step)
        self._next_step = batch.step + 1
        batches = [batch if others is None else next(others) for others in self._batches]
        for name, native in self._natives.items():
            native.announce_batches(batches, *([name == "projection"] if name in ENTRIES else []))

    def _open_batches(self, step: int) -> None:
        self._close_batches()
        self._batches = [sampler and sampler.batches(step) for sampler in self._samplers]

    def _close_batches(self) -> None:
        for each in filter(None, self._batches):
            each.close()
        self._batches = []

    def begin(self, step):
        self.boundaries.begin(step)
        super().begin(step)

    def drain(self):
        self.boundaries.drain()

    def close(self):
        self._close_batches()
        super().close()

    def arrays(self):
        """As Tables.arrays; of entities what this machine owns, as OwnedRows."""
        return {name: self._by_id(array) if name.startswith("entity") else array
                for name, array in super().arrays().items()}

    def own_arrays(self) -> Dict[str, np.ndarray]:
        """What this machine has, by local number."""
        return super().arrays()

    def _by_id(self, rows) -> OwnedRows:
        return OwnedRows(rows, self.owners, self.machine)

    def load(self, folder, stem):
        from ...store.embedding_store import read_rows

        self.drain()
        for name, file in self.files(folder, stem).items():
            store = self.stores[name]
            if name == "entity":
                read_rows(file, _Assigned(store, self.owners, self.machine))
            else:
                read_rows(file, store.embeddings)
            store.state[:] = 0


class _Assigned(OwnedRows):
    """Embeddings that are set from float32, in halves rounded to the nearest ones."""

    def __init__(self, store: EmbeddingStore, owners, machine):
        self.rows, self.owners, self.machine = store.embeddings, owners, machine
        self.shape, self.dtype = (owners.rows, store.dim), np.dtype(np.float32)

    def put(self, local, values):
        if isinstance(self.rows, np.ndarray):
            self.rows[local] = values
            return
        for row, value in zip(local, values):
            self.rows[int(row) : int(row) + 1] = value[None]


def machine_tables(config: TrainConfig, graph: KnowledgeGraph, owners: _native.RowOwners, transport: Transport,
                   others: Sequence[Optional[Sampler]]) -> MachineTables:
    """Allocate and fill what this machine holds. Raises InputError if the machine refuses the memory."""
    dims, lr, seed = table_dims(config), config.loss.lr, config.run.seed
    machine, machines = transport.machine, transport.machines
    relations = config.model.relation_rows(graph.n_relations)
    starts = start_values(config, {"entity": graph.n_entities, "relation": relations}, seed)
    natives: Dict[str, Any] = {}
    rounding = entity_rounding(config)

    def owned(table: _native.HostTable) -> RankRows:
        noise = (rounding.seed, rounding.table) if rounding else ()
        natives["entity"] = _native.MachineRows(table, owners, machine, lr, *noise)
        return _SteppedRows(rounded_rows(natives["entity"], rounding), natives["entity"])

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
    return MachineTables(dims, stores, natives, owners, transport, others)
