"""The parsed form of a data set in one file that is mapped into memory, so that the next run starts at once.

Layout of the file: arrays, each at a multiple of the page size; then a footer in JSON; then its length (8 bytes, little
endian), the CRC-32 of all before it (4 bytes) and a mark. Arrays are written in place while the text is parsed, so
nothing is held twice. A file without the mark, with another checksum, or with a footer that does not describe today's
sources, is written anew.

Sources are known by what is in them, all of which is read for a checksum at each start: a small part of the time that
parsing takes. No date of a file could stand for its content: tar, rsync and images of disks keep dates or set them, and
some file systems make them up.
"""
from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Callable, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from ..files import replace_file
from ..flag_values import file_path
from .fingerprint import file_checksum

log = logging.getLogger(__name__)

Arrays = Dict[str, np.ndarray]
Where = Union[None, bool, str, os.PathLike]

WORTHWHILE_BYTES = 64 << 20  # smaller sources are parsed in a moment, and need no second file next to them
_VERSION = 3
_MARK = b"dglkegr2"
_LENGTH, _END = struct.Struct("<Q"), struct.Struct("<I8s")


class _NotKept(Exception):
    """Why the cache is not written; the data set can be read without it."""


class Sink:
    """Where the arrays of a data set are made: here in memory, in a subclass in the cache's file."""

    def __init__(self):
        self.arrays: Arrays = {}

    def empty(self, name: str, length: int, dtype) -> np.ndarray:
        """A new array to fill."""
        self.arrays[name] = np.empty(length, dtype)
        return self.arrays[name]

    def put(self, name: str, values: np.ndarray) -> None:
        """Takes an array that is complete."""
        self.arrays[name] = values


class _FileSink(Sink):
    """Makes the arrays in a file, mapped."""

    def __init__(self, file):
        self._file = file
        self.end = 0
        self.described: Dict[str, list] = {}

    def empty(self, name, length, dtype):
        dtype = np.dtype(dtype)
        begin = -(-self.end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self.end = begin + max(1, length * dtype.itemsize)
        try:
            # Reserved before it is written: a full disk would otherwise show as a bus error in the parser.
            os.posix_fallocate(self._file.fileno(), begin, self.end - begin)
            data = mmap.mmap(self._file.fileno(), self.end - begin, offset=begin)
        except OSError as error:
            raise _NotKept(error.strerror) from error
        self.described[name] = [begin, length, dtype.name]
        return np.frombuffer(data, dtype, length)

    def put(self, name, values):
        self.empty(name, len(values), values.dtype)[:] = values


Build = Callable[[Sink], dict]  # makes the arrays, returns what else is to be known about the data set


def load(name: str, sources: Sequence[Path], flags: dict, where: Where, build: Build) -> Tuple[dict, Arrays]:
    """The arrays that `build` makes of the sources, from a valid cache if there is one, else built, and kept if `where`
    says so.

    where: None, next to the first source if the sources are large; True, always there; a folder, there; False, nowhere.
    flags: everything besides the sources that decides the result (JSON values).
    """
    folder = _folder(sources, where)
    if folder is None:
        return _build_in_memory(build)
    states = _states(sources)
    places = [os.path.relpath(path, folder) for path in sources]  # the same in a copy of the folder
    contents = [[place, path.stat().st_size, file_checksum(path)] if path.is_file() else [place]
                for place, path in zip(places, sources)]
    key = {"version": _VERSION, "flags": flags, "sources": contents}
    identity = json.dumps([name, flags, places], sort_keys=True)
    readable = re.sub(r"[^\w.-]", "_", name)[:40]
    path = folder / f".{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.frugal"
    found = _open(path, key)
    if found is not None:
        log.info("%s: parsed form from %s", name, path)
        return found
    if not os.access(folder, os.W_OK | os.X_OK):
        log.info("%s: no cache of the parsed form, %s is not writable", name, folder)
        return _build_in_memory(build)

    def build_unchanged(sink: Sink) -> dict:
        meta = build(sink)
        if _states(sources) != states:
            raise _NotKept("the files changed while they were read")
        return meta

    try:
        _write(path, key, build_unchanged)
    except _NotKept as reason:
        log.info("%s: no cache of the parsed form in %s: %s", name, folder, reason)
        return _build_in_memory(build)
    return _open(path, key) or _build_in_memory(build)


def _folder(sources: Sequence[Path], where: Where) -> Optional[Path]:
    if where is None:
        where = sum(path.stat().st_size for path in sources if path.is_file()) >= WORTHWHILE_BYTES
    if where is False:
        return None
    return sources[0].parent if where is True else Path(file_path(where))


def _states(sources: Sequence[Path]) -> list:
    """Numbers that change when one of the sources is written or replaced."""
    found = [path.stat() for path in sources if path.is_file()]
    return [(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in found]


def _build_in_memory(build: Build) -> Tuple[dict, Arrays]:
    sink = Sink()
    return build(sink), sink.arrays


def _write(path: Path, key: dict, build: Build) -> None:
    with replace_file(path) as file:
        sink = _FileSink(file)
        text = json.dumps({"key": key, "meta": build(sink), "arrays": sink.described}).encode()
        file.seek(sink.end)
        file.write(text + _LENGTH.pack(len(text)))
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            checksum = zlib.crc32(data)
        file.write(_END.pack(checksum, _MARK))


def _open(path: Path, key: dict) -> Optional[Tuple[dict, Arrays]]:
    """The cache at `path` if it is whole and made from what `key` describes."""
    try:
        with open(path, "rb") as file:
            # Private, so that consumers that insist on writable memory (torch) take it; the file never changes.
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except (OSError, ValueError):  # ValueError: it is empty
        return None
    if len(data) < _LENGTH.size + _END.size:
        return None
    data, end = data[: -_END.size], data[-_END.size :]
    if _END.unpack(end) != (zlib.crc32(data), _MARK):
        return None
    (length,) = _LENGTH.unpack(data[-_LENGTH.size :])
    footer = json.loads(bytes(data[-_LENGTH.size - length : -_LENGTH.size]))
    if footer["key"] != key:
        return None
    return footer["meta"], {name: np.frombuffer(data, dtype, count, begin)
                            for name, (begin, count, dtype) in footer["arrays"].items()}
