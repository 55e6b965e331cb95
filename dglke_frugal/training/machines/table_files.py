"""Files of tables that several machines write together: each its share, a range of ids, into one file in a folder that
all of them see. No machine ever holds more than a block of the others' rows, and the file is that of one process.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np

from ... import _native
from ...errors import InputError, shortage
from ...store.embedding_store import SAVED_TYPES, rows_header, to_float16
from .group import Machines

EMBEDDINGS = "embeddings"  # the name of entities in float32, however they are kept
BLOCK_BYTES = 8 << 20  # of the rows that a machine writes at a time


class OwnedRows:
    """An array of rows of which this machine has those that it owns, by id: (entities, ...).

    Of a block of neighbouring ids that is assigned, own rows are kept; files are written by all machines together.
    """

    def __init__(self, name: str, rows, owners: _native.RowOwners, machine: int, files: Optional["TableFiles"] = None):
        """name: the same on all machines. rows: of this one, by their local numbers: an array, or HalfEmbeddings."""
        self.name, self.rows, self.owners, self._machine, self._files = name, rows, owners, machine, files
        self.shape, self.dtype, self.ndim = (owners.rows, *rows.shape[1:]), rows.dtype, rows.ndim
        self.nbytes = owners.rows * self.row_bytes(self.dtype)

    def row_bytes(self, dtype: np.dtype) -> int:
        """Bytes of a row of numbers of this type."""
        return dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def __setitem__(self, block: slice, values: np.ndarray) -> None:
        ids = np.arange(*block.indices(self.shape[0]), dtype=np.int64)
        own = np.flatnonzero(self.owners.owner(ids) == self._machine)
        self.rows[self.owners.local(ids[own])] = values[own]

    def take(self, ids: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Own rows by id, (n, ...), in this type."""
        rows = self.rows[self.owners.local(ids)]
        return to_float16(rows) if dtype == np.float16 != rows.dtype else np.ascontiguousarray(rows, dtype)

    def write_npy(self, path: Path, header: bytes) -> Tuple[int, int]:
        """Returns the size of the file and its CRC-32."""
        return len(header) + self.nbytes, self._files.write(path, self, header, self.dtype)

    def write_rows(self, path: Path, dtype: str) -> int:
        """As store.embedding_store.write_rows."""
        return self._files.write(path, self, rows_header(self.shape, dtype), SAVED_TYPES[dtype])


class TableFiles:
    """Writes OwnedRows together with the other machines.

    Machine 0 says what is written; the others `serve` meanwhile.
    """

    def __init__(self, group: Machines):
        self._group = group

    def write(self, path: Path, rows: OwnedRows, header: bytes, dtype) -> int:
        """On machine 0: write `header`, and behind it the rows in the order of ids. Returns the file's CRC-32."""
        with open(path, "wb") as file:
            file.write(header)
            file.flush()
            os.fsync(file.fileno())
        dtype = np.dtype(dtype)
        self._group.from_first({"path": str(path), "name": rows.name, "offset": len(header), "dtype": dtype.str})
        return self._write_share(path, rows, len(header), dtype, zlib.crc32(header))

    def finish(self) -> None:
        """On machine 0: let the others go on."""
        self._group.from_first({"path": None})

    def serve(self, tables: Dict[str, OwnedRows]) -> None:
        """On another machine: write shares until machine 0 has finished. tables: by name."""
        while (order := self._group.from_first())["path"] is not None:
            path = Path(order["path"])
            try:
                self._write_share(path, tables[order["name"]], order["offset"], np.dtype(order["dtype"]), 0)
            except FileNotFoundError:
                raise InputError(f"cannot find {path}, which machine 0 has made; give a --save_path on a disk that all "
                                 "machines share") from None
            except OSError as error:
                raise shortage(error) or InputError(f"cannot write {path}: {error.strerror or error}; free some space, "
                                                    "or choose a folder that is writable") from error

    def _write_share(self, path: Path, rows: OwnedRows, offset: int, dtype: np.dtype, checksum: int) -> int:
        """Returns the checksum of the whole file on machine 0. Raises OSError."""
        group = self._group
        row_bytes = rows.row_bytes(dtype)
        first, last = _share(rows.shape[0], group.machine, group.machines)
        own = 0
        with open(path, "r+b") as file:
            file.seek(offset + first * row_bytes)
            for block in self._blocks(rows, row_bytes, dtype):
                own = zlib.crc32(block, own)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        for part, size in group.all_of((own, (last - first) * row_bytes)):
            checksum = combined(checksum, part, size)
        return checksum

    def _blocks(self, rows: OwnedRows, row_bytes: int, dtype: np.dtype) -> Iterator[np.ndarray]:
        """The rows of this machine's share, some at a time; collective."""
        group = self._group
        shares = [_share(rows.shape[0], machine, group.machines) for machine in range(group.machines)]
        step = max(1, BLOCK_BYTES // row_bytes)
        for begin in range(0, max(last - first for first, last in shares), step):
            ids = [np.arange(min(first + begin, last), min(first + begin + step, last)) for first, last in shares]
            owners = [rows.owners.owner(each) for each in ids]
            sent = [rows.take(each[owner == group.machine], dtype) for each, owner in zip(ids, owners)]
            mine = owners[group.machine]
            received = [int((mine == machine).sum()) * row_bytes for machine in range(group.machines)]
            got = group.scatter(np.concatenate([part.reshape(-1).view(np.uint8) for part in sent]),
                                [part.nbytes for part in sent], received)
            block = np.empty((len(mine), row_bytes), np.uint8)
            for machine, part in enumerate(np.split(got, np.cumsum(received)[:-1])):
                block[mine == machine] = part.reshape(-1, row_bytes)
            yield block


def _share(rows: int, machine: int, machines: int) -> Tuple[int, int]:
    """The range of ids that a machine writes."""
    return rows * machine // machines, rows * (machine + 1) // machines


def combined(first: int, second: int, size: int) -> int:
    """The CRC-32 of two pieces one behind the other, from theirs; size: bytes of the second one.

    A piece of zeros multiplies a checksum by a matrix over GF(2); squaring the one of a zero bit makes those of more.
    """
    if size == 0:
        return first
    matrix = [0xEDB88320, *(1 << bit for bit in range(31))]  # of one zero bit, the polynomial reflected
    bits = 8 * size
    while bits:
        if bits & 1:
            first = _times(matrix, first)
        matrix = [_times(matrix, column) for column in matrix]
        bits >>= 1
    return first ^ second


def _times(matrix: List[int], vector: int) -> int:
    total = 0
    for bit, column in enumerate(matrix):
        if vector >> bit & 1:
            total ^= column
    return total
