"""Tables of one of several machines: the entities that it owns, and all relations. All write files together."""

from __future__ import annotations

from typing import Dict, Optional

import numpy as np

from ... import _native
from ...models import RowDims
from ...store import EmbeddingStore
from ...store.embedding_store import read_rows, write_rows
from ..tables.tables import Tables
from .table_files import EMBEDDINGS, OwnedRows, TableFiles


class OwnedTables(Tables):
    """Tables of one of several machines.

    Attributes:
        owners: of the entities.
        machine: which one this is.
        files_of_all: by which all machines write files.
    """

    def __init__(self, dims: RowDims, stores: Dict[str, EmbeddingStore], owners: _native.RowOwners, machine: int,
                 files_of_all: Optional[TableFiles] = None):
        super().__init__(dims, *stores.values())
        self.owners, self.machine, self.files_of_all = owners, machine, files_of_all

    def arrays(self):
        """As Tables.arrays; of entities what this machine owns, as OwnedRows."""
        return {name: self.owned(name, array) if name.startswith("entity") else array
                for name, array in super().arrays().items()}

    def owned(self, name: str, rows) -> OwnedRows:
        """Rows by local number, by id."""
        return OwnedRows(name, rows, self.owners, self.machine, self.files_of_all)

    def row_id(self, name, row):
        return int(self.owners.ids(self.machine, np.array([row]))[0]) if name == "entity" else row

    def save(self, folder, stem, entity_dtype="fp32"):
        embeddings = self.embeddings()
        entities = self.owned(EMBEDDINGS, embeddings.pop("entity"))
        files = self.files(folder, stem)
        checksums = {files["entity"].name: entities.write_rows(files["entity"], entity_dtype)}
        return {**checksums, **{files[name].name: write_rows(files[name], rows) for name, rows in embeddings.items()}}

    def serve(self) -> None:
        """While machine 0 writes files: write this machine's share of them."""
        shared = {name: rows for name, rows in self.arrays().items() if isinstance(rows, OwnedRows)}
        shared[EMBEDDINGS] = self.owned(EMBEDDINGS, self.embeddings()["entity"])
        self.files_of_all.serve(shared)

    def load(self, folder, stem):
        self.drain()
        for name, file in self.files(folder, stem).items():
            rows = self.stores[name].embeddings
            read_rows(file, self.owned(EMBEDDINGS, rows) if name == "entity" else rows)
            self.stores[name].state[:] = 0
