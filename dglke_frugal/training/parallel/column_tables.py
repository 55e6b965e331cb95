"""Tables that are sharded by columns: each rank trains one slice, and rank 0 has made all of them.

A slice is a table of its own in shared memory, or with owner transfer a part of one, whose rows are
padded to lines, with a copy of the optimizer state: all ranks compute the same one. Files hold whole rows. All slices
have the same rows in the same steps, so rank 0 plans the cache for all.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from ... import _native
from ...errors import InputError
from ...options import TrainConfig
from ...store import EmbeddingStore
from ...store.embedding_store import read_rows
from ...store.rows.flush_config import StoreAddress
from ...store.rows.half_embeddings import Rounding, embeddings_of, stored_embeddings
from ..plan.column_config import Columns, uses_owner_transfer, columns_of, shard_config
from ..processes.process_group import ProcessGroup
from ..processes.step_exchange import StepExchange
from ..tables.start_values import start_values
from ..tables.tables import entity_flushing, entity_rounding
from .rank_tables import RankTables

ROWS_AT_A_TIME = 8192


class WholeRows:
    """All columns of a table, or its states, as far as NumPy's indexing by a slice of rows goes; nothing is copied
    before."""

    def __init__(self, slices: Sequence, columns: Optional[Columns] = None):
        """slices: of all ranks, (rows, own columns) arrays or HalfEmbeddings; without columns the states (rows,), of
        which each rank has a copy."""
        self._slices, self._columns = slices, columns
        self.shape = slices[0].shape if columns is None else (len(slices[0]), columns.dim)
        self.ndim, self.dtype = len(self.shape), slices[0].dtype
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        if self._columns is None:
            return self._slices[0][rows]
        block = np.empty((len(range(*rows.indices(len(self)))), self.shape[1]), self.dtype)
        for rank, columns in enumerate(self._slices):
            of_rank = columns[rows]
            for whole, own in zip(self._columns.whole(rank), self._columns.own()):
                block[:, whole] = of_rank[:, own]
        return block

    def __setitem__(self, rows: slice, block: np.ndarray) -> None:
        for rank, columns in enumerate(self._slices):
            columns[rows] = block if self._columns is None else np.concatenate(
                [block[:, whole] for whole in self._columns.whole(rank)], axis=1)


class CopiedTables:
    """Whole tables in host memory that all ranks read, for an evaluation."""

    class Copy:
        """One table."""

        def __init__(self, table: _native.HostTable):
            self._table = table

        @property
        def embeddings(self):
            """(rows, dim) float32 array, or HalfEmbeddings."""
            return embeddings_of(self._table)

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

    @property
    def owner_transfer(self) -> bool:
        """Whether the ranks move whole rows of entities for each other (store/rows/row_transfer.py)."""
        address = self.entity.address
        return address is not None and address.flushing.owner_transfer

    def connect(self, group: ProcessGroup) -> None:
        """Collective, before the first step, when the exchange is connected. Raises InputError."""
        if not self.owner_transfer:
            return
        if not self.exchange.reaches:
            raise InputError("these GPUs do not open each other's memory, although they reach it; use --peer off")
        transfer = self.entity.steps.transfer
        transfer.connect(self.exchange.native, group.all_of(transfer.handle))

    def drain(self) -> None:
        super().drain()
        if self.exchange is not None and not self.still:
            self.exchange.check()  # or the tables hold what no step has computed

    def fail(self, sentence: str) -> None:
        if self.exchange is not None:
            self.exchange.fail(sentence)
        super().fail(sentence)

    def addresses(self) -> Dict[str, dict]:
        """Where other ranks find their slices, and the engine that plans for all, if there is one."""
        found = {name: {"rows": tables[0].rows, "paths": [table.path for table in tables]}
                 for name, tables in self.slices.items()}
        if self.entity.address is not None:
            found["entity"]["store"] = self.entity.address.to_json()
        return found

    def whole(self, name: str, view: Callable = embeddings_of) -> WholeRows:
        """All columns of a table. Rank 0 alone has them. view: stored_embeddings for what is kept."""
        return WholeRows([view(table) for table in self.slices[name]], self._columns[name])

    def arrays(self):
        self.drain()
        return {f"{name}{suffix}": rows for name, tables in self.slices.items()
                for suffix, rows in (("", self.whole(name, stored_embeddings)),
                                     ("_state", WholeRows([table.state for table in tables])))}

    def embeddings(self):
        self.drain()
        return {name: self.whole(name) for name in self.slices}

    def load(self, folder: Path, stem: str) -> None:
        self.drain()
        for name, file in self.files(folder, stem).items():
            read_rows(file, self.whole(name))
            for table in self.slices[name]:
                table.state[:] = 0

    @contextlib.contextmanager
    def copied(self, group: ProcessGroup) -> Iterator[CopiedTables]:
        """In a pause of all ranks: whole tables for all of them, which rank 0 puts together."""
        dims = {name: columns.dim for name, columns in self._columns.items()}
        of_rank = {name: tables[0] for name, tables in self.slices.items()}
        if group.rank:
            paths = group.from_first()
            tables = {name: _native.HostTable(paths[name], own.rows, dims[name], element=own.element)
                      for name, own in of_rank.items()}
        else:
            tables = {name: _allocate(own.rows, dims[name], own.element) for name, own in of_rank.items()}
            for name, table in tables.items():
                whole, copy = self.whole(name, stored_embeddings), stored_embeddings(table)
                for begin in range(0, len(whole), ROWS_AT_A_TIME):
                    part = slice(begin, min(len(whole), begin + ROWS_AT_A_TIME))
                    copy[part] = whole[part]
            group.from_first({name: table.path for name, table in tables.items()})
        yield CopiedTables(tables)


def _allocate(rows: int, dim: int, element: str, parts: int = 1) -> _native.HostTable:
    try:
        return _native.HostTable(rows, dim, True, element=element, parts=parts)
    except RuntimeError as error:
        raise InputError(f"{error}; use a smaller --hidden_dim or a machine with more memory") from error


def _with_entities(config: TrainConfig, slices: Dict[str, List[_native.HostTable]], entity: EmbeddingStore, rank: int,
                   device) -> ColumnTables:
    """slices: of each table those that the rank knows, its own first. entity: the store of its slice of entities."""
    relation = slices["relation"][0]
    stores = {"entity": entity, "relation": EmbeddingStore(relation.rows, relation.dim, config.loss.lr, table=relation,
                                                           device=device)}
    return ColumnTables(shard_config(config, rank).model.dims, stores, slices, _columns(config))


def _rounding(config: TrainConfig, rank: int) -> Optional[Rounding]:
    return entity_rounding(config, _columns(config)["entity"].ranges(rank))


def _columns(config: TrainConfig) -> Dict[str, Columns]:
    dims = config.model.dims
    return columns_of(config, {"entity": dims.entity, "relation": dims.relation})


def _elements(config: TrainConfig) -> Dict[str, str]:
    return {"entity": config.model.row_dtype, "relation": "fp32"}


def _split(rows: int, columns: Columns, element: str, owner_transfer: bool) -> List[_native.HostTable]:
    if not owner_transfer:
        return [_allocate(rows, columns.of_rank, element) for _ in range(columns.ranks)]
    first = _allocate(rows, columns.of_rank, element, columns.ranks)
    return [first, *(first.part(part) for part in range(1, columns.ranks))]


def _attach(path: str, rows: int, columns: Columns, element: str, part: Optional[int]) -> _native.HostTable:
    """part: which of one mapping, None for a table of its own."""
    place = {} if part is None else {"part": part, "parts": columns.ranks}
    return _native.HostTable(path, rows, columns.of_rank, element=element, **place)


def split_tables(config: TrainConfig, rows: Dict[str, int], seed: int, hot_entities, device) -> ColumnTables:
    """Rank 0: allocate and fill the slices of all ranks with the start values of whole tables. Raises InputError."""
    columns, starts, elements = _columns(config), start_values(config, rows, seed), _elements(config)
    owner_transfer = uses_owner_transfer(config, rows["entity"])
    slices: Dict[str, List[_native.HostTable]] = {}
    for name, split in columns.items():
        slices[name] = _split(rows[name], split, elements[name], owner_transfer and name == "entity")
        for rank, table in enumerate(slices[name]):
            starts[name].fill(table, split.dim, split.ranges(rank))
    table = slices["entity"][0]
    flushing = entity_flushing(shard_config(config), table.rows, table.dim)
    if flushing is not None:
        flushing = replace(flushing, ranks=config.device.ranks, same_steps=True, owner_transfer=owner_transfer)
    entity = EmbeddingStore(table.rows, table.dim, config.loss.lr, table=table, hot_rows=[hot_entities], device=device,
                            flushing=flushing, rounding=_rounding(config, 0))
    return _with_entities(config, slices, entity, 0, device)


def attach_slices(config: TrainConfig, addresses: Dict[str, dict], rank: int, device) -> ColumnTables:
    """Another rank: its slices of what rank 0 has made. Raises RuntimeError if that one has ended."""
    elements, store = _elements(config), addresses["entity"].get("store")
    address = store and StoreAddress.from_json(store)  # of the engine that plans for all, if there is one
    owner_transfer = address is not None and address.flushing.owner_transfer
    slices = {name: [_attach(addresses[name]["paths"][rank], addresses[name]["rows"], split, elements[name],
                             rank if owner_transfer and name == "entity" else None)]
              for name, split in _columns(config).items()}
    table, lr, rounding = slices["entity"][0], config.loss.lr, _rounding(config, rank)
    if address is None:
        entity = EmbeddingStore(table.rows, table.dim, lr, table=table, device=device, rounding=rounding)
    else:
        entity = EmbeddingStore.attach(address, rank, lr, device, table, rounding)
    return _with_entities(config, slices, entity, rank, device)
