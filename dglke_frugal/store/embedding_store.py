"""The embedding store that trainers see: rows out, gradients in."""
from __future__ import annotations

import io
import os
import warnings
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence, Tuple

import numpy as np

from .. import _native
from ..errors import InputError
from ..files import replace_file
from ..npy_files import read_npy
from .flushing import EngineTable, InPlaceTable, RemoteTable, RankRows, ReplicaRows
from .row_blocks import row_blocks
from .row_bytes import FLOAT
from .rows.flush_config import FlushConfig, StoreAddress
from .rows.half_embeddings import Rounding, embeddings_of, stored_embeddings

if TYPE_CHECKING:
    from .device.device import Device

SAVED_TYPES = {"fp32": "<f4", "fp16": "<f2"}  # types of a .npy file
ADAGRAD_EPSILON = np.float32(1e-10)


class EmbeddingStore:
    """A table of `rows` embeddings of `dim` float32, with one float of row-wise Adagrad state per row, or with
    `state_floats` of another optimizer's, which then is what updates them.

    The rows lie in host memory, allocated once, at a stride of whole 128-byte lines; the state lies in a row's padding.
    `shared` tables are seen by processes that are forked from this one, and by processes that attach. `square_root`
    maps an (n,) float32 array of states to their square roots, for callers that must agree with another library's; by
    default they are correctly rounded.

    A step reads rows with `gather` and hands its gradients back with `apply`. Reads see all earlier updates: what the
    store does in between (caching, flushing in the background) never shows in a value. Steps that are announced ahead
    and work on the rows where they lie go through `steps` (see csrc/store/step_rows.h): with `flushing`, through a
    cache and the P2F engine; `hot_rows` are, for each rank, row ids by expected use, for caches that are filled once.
    Several ranks, each a process, train on one store: the first one makes it, the others `attach` to its `address`.
    With a `device` (a store.device.Device) `steps` are DeviceRows: the cache lies there, or without `flushing` the
    whole table does. Once a step has been announced, steps alone change rows: what a device holds of them is not read
    again, so that others may read the drained table but not write to it. `table`: one that is there already, of that
    many rows and columns. With a `replica` (a _native.Replica) each of several ranks holds the whole table, and all
    update it alike; they share the host table, which is rank 0's replica once it is drained. `exchange`: a
    _native.Exchange, for ranks that synchronise in each step (FlushConfig). `start`: sets the start values, before
    anybody else has the table: a device registers pages much sooner that are there, and these all threads bring in.
    With `rounding` the table is kept in half precision, and so are caches and what travels; steps compute in
    float32 all the same. `make_rows`: makes the rows that steps find, where rows travel in ways that the store does
    not know.

    Attributes:
        steps: where steps find their rows and leave them.
        device: where steps compute; None for the CPU.
        stalls: what a device has waited for rows (stalls.Stalls); None without one.
    """

    def __init__(self, rows: int, dim: int, learning_rate: float, shared: bool = False,
                 square_root: Optional[Callable[[np.ndarray], np.ndarray]] = None,
                 flushing: Optional[FlushConfig] = None, hot_rows: Sequence[Optional[Sequence[int]]] = (),
                 device: Optional[Device] = None, table: Optional[_native.HostTable] = None,
                 rounding: Optional[Rounding] = None, state_floats: int = 1,
                 replica: Optional[_native.Replica] = None, exchange: Any = None,
                 start: Optional[Callable[[_native.HostTable], None]] = None,
                 make_rows: Optional[Callable[[_native.HostTable], RankRows]] = None):
        self.learning_rate, self._rounding = learning_rate, rounding
        self._square_root = square_root
        try:
            shared = shared or (flushing is not None and flushing.ranks > 1)
            self._table = table or _native.HostTable(rows, dim, shared, state_floats,
                                                     element=rounding.element if rounding else "fp32")
        except RuntimeError as error:
            raise InputError(f"{error}; use a smaller --hidden_dim or a machine with more memory") from error
        if start is not None:
            start(self._table)
        if make_rows is not None:
            self._hold(make_rows(self._table))
        elif replica is not None:
            self._hold(ReplicaRows(self._table, replica, learning_rate, device))
        elif flushing is not None:
            self._hold(EngineTable(self._table, learning_rate, flushing, hot_rows, device, rounding=rounding,
                                   exchange=exchange))
        else:
            self._hold(InPlaceTable(self._table, device, rounding))

    def _hold(self, rows: RankRows) -> None:
        """gather and apply mean the table, until a step of these rows begins."""
        self._ranked, self.steps = rows, rows.steps
        self.device = rows.device
        self.stalls = rows.steps.stalls if rows.device is not None else None
        self._rows = self._table
        self._drained_after = 0  # steps that had ended when all was in the table

    @classmethod
    def attach(cls, address: StoreAddress, rank: int, learning_rate: float, device: Optional[Device] = None,
               table: Optional[_native.HostTable] = None, rounding: Optional[Rounding] = None,
               exchange: Any = None) -> "EmbeddingStore":
        """The store of another process, seen by rank `rank` > 0, with a `device` if that one has one.

        table: of a rank that has columns of its own, its table; else that of the address. rounding: of one in half
        precision.
        exchange: for in-step synchronisation.
        Raises RuntimeError if that process has ended.
        """
        store = cls.__new__(cls)
        store.learning_rate, store._square_root, store._rounding = learning_rate, None, rounding
        store._table = table or _native.HostTable(address.table, address.rows, address.dim, address.state,
                                                  rounding.element if rounding else "fp32")
        store._hold(RemoteTable(store._table, address, rank, device, rounding, exchange))
        return store

    @property
    def address(self) -> StoreAddress:
        """For `attach` in the processes of other ranks."""
        return self._ranked.address

    @property
    def path(self) -> str:
        """Where other processes find a shared table."""
        return self._table.path

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self._table.rows

    @property
    def dim(self) -> int:
        """Floats of a row, its state left out."""
        return self._table.dim

    @property
    def embedding_floats(self) -> int:
        """Floats whose place an embedding takes: dim, or in half precision half of it, rounded up."""
        return self._table.embedding_floats

    @property
    def nbytes(self) -> int:
        """Bytes of host memory that the table takes when all its rows have been touched."""
        return self._table.nbytes

    @property
    def embeddings(self) -> np.ndarray:
        """(rows, dim) float32 view of the table itself, strided, or HalfEmbeddings. Drain before reading what training
        has written."""
        return embeddings_of(self._table)

    @property
    def stored(self) -> np.ndarray:
        """The same as it is kept: float32 or float16."""
        return stored_embeddings(self._table)

    @property
    def state(self) -> np.ndarray:
        """(rows,) float32 view of the row-wise Adagrad state, or (rows, state_floats) of another optimizer's."""
        table = self._table
        return table.state if table.state_floats == 1 else table.records[:, table.dim : table.record_floats]

    def init_uniform(self, bound: float, seed: int, stream: int) -> None:
        """Fill with uniform numbers in [-bound, bound) that depend on (seed, stream, row, column) alone; states to
        0."""
        self._table.init_uniform(-bound, bound, seed, stream)

    def begin(self, step: int) -> None:
        """Wait until the announced rows of `step` may be read; gather and apply then mean this step, until apply ends
        it. On the CPU: with a device a step's rows stay there, see store/device_executor.py. Raises RuntimeError."""
        self._refuse_device()
        self.steps.begin(step)
        self._rows = self.steps

    def _refuse_device(self) -> None:
        if self.device is not None:
            raise RuntimeError("a step's rows lie on the device, which reads and updates them there; use "
                               "dglke_frugal.Embedding, or a DeviceExecutor, for steps of your own")

    def gather(self, ids: Any, out: Any = None) -> Any:
        """Embeddings of `ids` ((n,) int64 array or tensor on the CPU) as an (n, dim) float32 array.

        Writes into `out` (array or tensor) if given. Outside a step, reads the drained table. Raises IndexError for an
        id outside the table, or one that was not announced for the step.
        """
        if self._rows is self._table and self._ranked.steps_run != self._drained_after:
            self.drain()  # steps have ended, whoever began them, whose updates may not be in the host table yet
        if out is None:
            out = np.empty((len(ids), self.dim), np.float32)
        self._rows.gather(ids, out)
        return out

    def apply(self, entries: Iterable) -> None:
        """Row-wise Adagrad for the entries of one step, in order; without `flushing` also outside of a step.

        entries: pairs (ids (n,) int64, gradients (n, dim) float32). Within an entry every occurrence of a row first
        adds mean(g*g) to the row's state, then each occurrence in turn moves the row (dglke, ExternalEmbedding.update).
        Raises IndexError for an id outside the table, RuntimeError where there is no step or a device has the rows.
        """
        in_step = self._rows is not self._table
        if not in_step and self._ranked.flushes:
            raise RuntimeError("rows that are cached and flushed are updated in a step; announce and begin one first")
        self._refuse_device()
        if in_step:
            self.steps.copy_to_destination()
        for ids, gradients in entries:
            if self._square_root is None:
                self._rows.apply_entry(ids, gradients, self.learning_rate)
            else:
                states = np.empty(len(ids), np.float32)
                self._rows.accumulate_entry(ids, gradients, states)
                deviations = self._square_root(states) + ADAGRAD_EPSILON
                self._rows.move_entry(ids, gradients, deviations, self.learning_rate)
        if in_step:
            self.steps.end()
            self._rows = self._table

    def drain(self) -> None:
        """Between two steps: wait until every update has reached the host table."""
        self.steps.drain()
        self._drained_after = self._ranked.steps_run

    def statistics(self) -> Optional[dict]:
        """Counters of cache and engine, or None for rows that are updated in the table in place."""
        return self._ranked.statistics()

    def fail(self, sentence: str) -> None:
        """Stop all ranks that train on this store with a sentence."""
        self._ranked.fail(sentence)

    def close(self) -> None:
        """Stop what runs in the background; drain first to keep its work. The table stays, for reading and saving."""
        closed = self._ranked
        self._hold(InPlaceTable(self._table, rounding=self._rounding))
        closed.close()

    def save(self, path: str | os.PathLike, dtype: str = "fp32") -> None:
        """Write the embeddings as a C-contiguous .npy file of float32, or with "fp16" of float16, without a second copy
        of the table in memory."""
        self.drain()
        write_rows(path, self.embeddings, dtype)

    def load(self, path: str | os.PathLike) -> None:
        """Read embeddings from a .npy file of the table's shape. Raises InputError; the states are set to 0."""
        read_rows(path, self.embeddings)
        self.state[:] = 0


def write_rows(path: str | os.PathLike, table: Any, dtype: str = "fp32") -> int:
    """Write a float32 table (rows, dim), which may only know slices of rows, as a C-contiguous .npy file of float32 or,
    with "fp16", of float16. Returns the CRC-32 of the file."""
    rows = (table[block] for block in row_blocks(table.shape[0], FLOAT * table.shape[1]))
    blocks = (np.ascontiguousarray(to_float16(each) if dtype == "fp16" else each) for each in rows)
    checksum = 0
    with replace_file(path) as file:
        for block in chain([rows_header(table.shape, dtype)], blocks):
            checksum = zlib.crc32(block, checksum)
            file.write(block)
    return checksum


def rows_header(shape: Tuple[int, ...], dtype: str) -> bytes:
    """The bytes before the rows in the file of a table."""
    header = io.BytesIO()
    described = {"descr": SAVED_TYPES[dtype], "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def to_float16(values: np.ndarray) -> np.ndarray:
    """The nearest float16; finite numbers beyond the largest become that one, as where rows are kept in half
    precision, with a warning."""
    largest = np.float32(np.finfo(np.float16).max)
    finite = np.isfinite(values)
    beyond = int((finite & (np.abs(values) > largest)).sum())
    if beyond:
        warnings.warn(f"{beyond} numbers of a table are larger than float16 can be and are saved as {largest:,.0f}; "
                      "use --save_dtype fp32 to keep them", stacklevel=2)
    return np.where(finite, np.clip(values, -largest, largest), values).astype("<f2")


def read_rows(path: str | os.PathLike, table: Any) -> None:
    """Fill a float32 table (rows, dim), which may only know slices of rows, from a .npy file. Raises InputError."""
    try:
        values = read_npy(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give the folder of a finished run") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a .npy file of embeddings ({error}); save the run again") from error
    if values.shape != table.shape:
        raise InputError(f"{path} holds a table of {values.shape}, but the graph and the flags need {table.shape}; "
                         "use the flags that the run was trained with")
    for block in row_blocks(table.shape[0], FLOAT * table.shape[1]):
        table[block] = values[block]
