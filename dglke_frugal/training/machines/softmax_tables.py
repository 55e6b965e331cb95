"""The tables of one of several machines that train by a softmax over all entities. Importing this imports torch."""

from __future__ import annotations

from typing import Optional

from ... import _native
from ...data import KnowledgeGraph
from ...options import TrainConfig, state_floats
from ...store import EmbeddingStore
from ...store.device.device import Device
from ...store.flushing import InPlaceTable
from ...store.rows.resident_rows import ResidentRows
from ..tables.start_values import start_values
from .owned_tables import OwnedTables
from .table_files import TableFiles


class _OwnedInPlace(InPlaceTable):
    """Owned rows that are updated where they lie, by steps whose batches name rows of all machines."""

    def __init__(self, table: _native.HostTable, device: Device, rows: int):
        """rows: of all machines."""
        self.device, self.steps = device, ResidentRows(table, device)
        self.steps.most_rows = self.steps.scratch = rows


def softmax_tables(config: TrainConfig, graph: KnowledgeGraph, owners: _native.RowOwners, machine: int, device: Device,
                   files_of_all: Optional[TableFiles] = None) -> OwnedTables:
    """Allocate and fill what this machine holds for a softmax over all entities, with the start values of one process.
    owners: of ranges of ids. device: the CPU. Raises InputError if the machine refuses the memory."""
    dims, loss, relations = config.model.dims, config.loss, config.model.relation_rows(graph.n_relations)
    starts = start_values(config, {"entity": graph.n_entities, "relation": relations}, config.run.seed)
    entity = EmbeddingStore(owners.count(machine), dims.entity, loss.lr,
                            state_floats=state_floats(loss.optimizer, dims.entity),
                            make_rows=lambda table: _OwnedInPlace(table, device, owners.rows),
                            start=lambda table: starts["entity"].fill(table, owners=owners, worker=machine))
    relation = EmbeddingStore(relations, dims.relation, loss.lr, device=device,
                              state_floats=state_floats(loss.optimizer, dims.relation), start=starts["relation"].fill)
    return OwnedTables(dims, {"entity": entity, "relation": relation}, owners, machine, files_of_all)
