"""Tables that are split by columns: each rank trains one slice, and rank 0 has made all of them.

A slice is a table of its own in shared memory, whose rows are padded to lines, with a copy of the optimizer state: all
ranks compute the same one. Files hold whole rows.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import numpy as np

from .. import _native
from ..config import TrainConfig
from ..errors import InputError
from ..store import EmbeddingStore, FlushConfig
from ..store.embedding_store import read_rows, write_rows
from .column_exchange import StepExchange
from .columns import Columns, columns_of, own_config
from .peers import Peers
from .rank_tables import RankTables
from .tables import STREAMS, entity_flushing, find_bounds, table_dims

ROWS_AT_A_TIME = 8192


class WholeRows:
    """All columns of a table, or its states, as far as NumPy's indexing by a slice of rows goes; nothing is copied
    before."""

    def __init__(self, slices: List[_native.HostTable], columns: Optional[Columns]):
        """columns: None for the states."""
        self._slices, self._columns = slices, columns
        rows = slices[0].rows
        self.shape = (rows,) if columns is None else (rows, columns.dim)
        self.ndim, self.dtype = len(self.shape), np.dtype(np.float32)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        if self._columns is None:
            return self._slices[0].state[rows]
        block = np.empty((len(range(*rows.indices(len(self)))), self.shape[1]), np.float32)
        for rank, table in enumerate(self._slices):
            for whole, own in zip(self._columns.whole(rank), self._columns.own()):
                block[:, whole] = table.embeddings[rows, own]
        return block

    def __setitem__(self, rows: slice, block: np.ndarray) -> None:
        for rank, table in enumerate(self._slices):
            if self._columns is None:
                table.state[rows] = block
                continue
            for whole, own in zip(self._columns.whole(rank), self._columns.own()):
                table.embeddings[rows, own] = block[:, whole]


class CopiedTables:
    """Whole tables in host memory that all ranks read, for an evaluation."""

    class Copy:
        """One table."""

        def __init__(self, table: _native.HostTable):
            self._table = table

        @property
        def embeddings(self) -> np.ndarray:
            """(rows, dim) float32."""
            return self._table.embeddings

    def __init__(self, tables: Dict[str, _native.HostTable]):
        self.stores = {name: self.Copy(table) for name, table in tables.items()}

    def drain(self) -> None:
        """They are still."""


class ColumnTables(RankTables):
    """One rank's slices.

    Attributes:
        slices: by table, those of all ranks; of other ranks than 0 its own alone.
        exchange: once it is there, what steps go through; a failure ends all ranks by it.
    """

    def __init__(self, dims, stores: Dict[str, EmbeddingStore], slices: Dict[str, List[_native.HostTable]],
                 columns: Dict[str, Columns]):
        super().__init__(dims, stores["entity"], stores["relation"])
        self.slices, self._columns = slices, columns
        self.exchange: Optional[StepExchange] = None

    def drain(self) -> None:
        super().drain()
        if self.exchange is not None and not self.still:
            self.exchange.check()  # or the tables hold what no step has computed

    def fail(self, sentence: str) -> None:
        if self.exchange is not None:
            self.exchange.fail(sentence)

    def addresses(self) -> Dict[str, dict]:
        return {name: {"rows": tables[0].rows, "paths": [table.path for table in tables]}
                for name, tables in self.slices.items()}

    def whole(self, name: str) -> WholeRows:
        """All columns of a table. Rank 0 alone has them."""
        return WholeRows(self.slices[name], self._columns[name])

    def arrays(self):
        self.drain()
        return {f"{name}{suffix}": rows for name, tables in self.slices.items()
                for suffix, rows in (("", self.whole(name)), ("_state", WholeRows(tables, None)))}

    def save(self, folder: Path, stem: str) -> None:
        self.drain()
        for name, file in self.files(folder, stem).items():
            write_rows(file, self.whole(name))

    def load(self, folder: Path, stem: str) -> None:
        self.drain()
        for name, file in self.files(folder, stem).items():
            read_rows(file, self.whole(name))
            for table in self.slices[name]:
                table.state[:] = 0

    @contextlib.contextmanager
    def copied(self, peers: Peers) -> Iterator[CopiedTables]:
        """In a pause of all ranks: whole tables for all of them, which rank 0 puts together."""
        dims = {name: columns.dim for name, columns in self._columns.items()}
        rows = {name: tables[0].rows for name, tables in self.slices.items()}
        if peers.rank:
            paths = peers.meet()
            tables = {name: _native.HostTable(paths[name], rows[name], dims[name]) for name in paths}
        else:
            tables = {name: _allocate(rows[name], dims[name]) for name in dims}
            for name, table in tables.items():
                whole = self.whole(name)
                for begin in range(0, len(whole), ROWS_AT_A_TIME):
                    part = slice(begin, min(len(whole), begin + ROWS_AT_A_TIME))
                    table.embeddings[part] = whole[part]
            peers.meet({name: table.path for name, table in tables.items()})
        yield CopiedTables(tables)


def _allocate(rows: int, dim: int) -> _native.HostTable:
    try:
        return _native.HostTable(rows, dim, True)
    except RuntimeError as error:
        raise InputError(f"{error}; use a smaller --hidden_dim or a machine with more memory") from error


def _make(config: TrainConfig, slices: Dict[str, List[_native.HostTable]], own: Callable, rank: int, hot_entities,
          device) -> ColumnTables:
    """own(tables): a rank's slice among those of a table."""
    alone, lr = own_config(config, rank), config.loss.lr
    entity, relation = (own(slices[name]) for name in ("entity", "relation"))
    flushing = entity_flushing(alone, entity.rows, entity.dim)

    def entities(flushing) -> EmbeddingStore:
        return EmbeddingStore(entity.rows, entity.dim, lr, table=entity, hot_rows=[hot_entities], device=device,
                              flushing=flushing)

    stores = {
        "entity": _read_in_place(entities, flushing),
        "relation": EmbeddingStore(relation.rows, relation.dim, lr, table=relation, device=device),
    }
    return ColumnTables(table_dims(alone), stores, slices, _columns(config))


def _read_in_place(make: Callable, flushing: Optional[FlushConfig]) -> EmbeddingStore:
    """With --host_read auto rows are read in place wherever that is possible: rows that are copied make the host wait
    for its device in each step, and so for all devices."""
    if flushing is None or flushing.host_read != "auto":
        return make(flushing)
    try:
        return make(replace(flushing, host_read="uva"))
    except InputError as refused:
        print(f"{refused}; host rows are copied", flush=True)
        return make(replace(flushing, host_read="copy"))


def _columns(config: TrainConfig) -> Dict[str, Columns]:
    dims = table_dims(config)
    return columns_of(config, {"entity": dims.entity, "relation": dims.relation})


def split_tables(config: TrainConfig, rows: Dict[str, int], seed: int, hot_entities, device) -> ColumnTables:
    """Rank 0: allocate and fill the slices of all ranks with the start values of whole tables. Raises InputError."""
    columns, bounds = _columns(config), find_bounds(config)
    slices: Dict[str, List[_native.HostTable]] = {}
    for name, split in columns.items():
        slices[name] = [_allocate(rows[name], split.of_rank) for _ in range(split.ranks)]
        for rank, table in enumerate(slices[name]):
            ranges = [(part.start, part.stop - part.start) for part in split.whole(rank)]
            table.init_uniform(-bounds[name], bounds[name], seed, STREAMS[name], split.dim, ranges)
    return _make(config, slices, lambda tables: tables[0], 0, hot_entities, device)


def attach_slices(config: TrainConfig, addresses: Dict[str, dict], rank: int, hot_entities, device) -> ColumnTables:
    """Another rank: its slices of what rank 0 has made. Raises RuntimeError if that one has ended."""
    slices = {name: [_native.HostTable(addresses[name]["paths"][rank], addresses[name]["rows"], split.of_rank)]
              for name, split in _columns(config).items()}
    return _make(config, slices, lambda tables: tables[0], rank, hot_entities, device)
