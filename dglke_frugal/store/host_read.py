"""How a CUDA device gets the rows that its cache does not hold: `--host_read {auto,uva,copy}`.

uva: one kernel reads them in place, from host memory that was registered with CUDA. copy: all cores gather them into a
pinned buffer, one copy brings that to the device. A probe at the start of a run chooses, and says why; results are the
same.
"""
from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from .. import _native
from ..config import HOST_READS
from ..errors import InputError
from .device_memory import HostMemory
from .plan_kernels import FROM_HOST, gather_rows, pack_host_rows

PROBE_ROWS, PROBE_REPEATS = 4096, 5


@dataclass(frozen=True)
class HostRead:
    """What was chosen. `reason` is one sentence for the log; rates are in bytes per second, None where not measured."""

    mode: str
    reason: str
    uva_rate: Optional[float] = None
    copy_rate: Optional[float] = None


class InPlaceReader:
    """One kernel reads cache slots and host rows, the latter where they lie.

    Raises _native.DeviceError, and registers nothing, if the table cannot be registered with CUDA.
    """

    def __init__(self, table: _native.HostTable, memory):
        self._dim, self._state, self._memory = table.embedding_floats, table.state_floats, memory
        self._host = memory.share(table.records)

    def gather(self, rows: np.ndarray, source: np.ndarray, cache, records) -> None:
        """records[u] = record of rows[u] (U,) int64: cache slot source[u] (U,) int32, or the host row where that is -1.

        rows and source lie on the CPU, cache (slots, stride) or None and records (U, stride) on the device.
        """
        put = self._memory.put
        gather_rows(self._dim, self._host, cache, put(rows), put(source), records, self._memory.stream,
                    state=self._state)


class CopyReader:
    """All cores gather host rows, at most max_rows, into a pinned buffer; one copy brings them to the device."""

    def __init__(self, table: _native.HostTable, max_rows: int, memory):
        self._table, self._memory = table, memory
        self._packed = memory.pinned((max_rows, table.stride))
        self._device_packed = memory.zeros((max_rows, table.stride))

    def gather(self, rows: np.ndarray, source: np.ndarray, cache, records) -> None:
        """As InPlaceReader.gather."""
        if len(rows) > len(self._packed):
            raise ValueError(f"{len(rows)} rows do not fit into buffers of {len(self._packed)}")
        memory = self._memory
        memory.wait_for_event()  # the last call's copy may still be reading the pinned buffer
        packed_row = np.empty(len(rows), np.int64)
        dim, state = self._table.embedding_floats, self._table.state_floats
        misses = pack_host_rows(dim, self._table.records, rows, source, self._packed, packed_row, state=state)
        memory.copy(self._device_packed[:misses], self._packed[:misses])
        memory.record()
        gather_rows(dim, self._device_packed, cache, memory.put(packed_row), memory.put(source), records,
                    memory.stream, state=state)


def median_rate(work: Callable[[], None], items: float, clock=time.perf_counter) -> float:
    """Items per second of `work`, which returns when it is done; the median of a few runs after one to warm up."""
    work()
    times = []
    for _ in range(PROBE_REPEATS):
        start = clock()
        work()
        times.append(clock() - start)
    return items / max(statistics.median(times), 1e-9)


def choose(wanted: str, uva_rate: Callable[[], float], copy_rate: Callable[[], float]) -> HostRead:
    """The way of reading that `wanted` (one of HOST_READS) asks for, or the faster one for auto.

    uva_rate and copy_rate measure one way each, in bytes per second; uva_rate raises _native.DeviceError where
    registration is refused. Raises InputError if uva was asked for and is refused.
    """
    if wanted not in HOST_READS:
        raise ValueError(f"there is no way of reading host rows called {wanted}")
    if wanted == "copy":
        return HostRead("copy", "host rows are gathered on the CPU and copied, as --host_read says")
    try:
        uva = uva_rate()
    except _native.DeviceError as error:
        if wanted == "uva":
            raise InputError(f"--host_read uva is not possible: {error}") from error
        return HostRead("copy", f"host rows are gathered on the CPU and copied; registration was refused: {error}")
    if wanted == "uva":
        return HostRead("uva", "host rows are read in place, as --host_read says", uva_rate=uva)
    copy = copy_rate()
    rates = f"{uva / 1e9:.1f} GB/s in place, {copy / 1e9:.1f} GB/s by gather and copy"
    mode = "uva" if uva >= copy else "copy"
    how = "read in place" if mode == "uva" else "gathered on the CPU and copied"
    return HostRead(mode, f"host rows are {how}, which a probe found faster ({rates})", uva, copy)


def open_reader(table: _native.HostTable, max_rows: int, memory, wanted: str = "auto"):
    """(reader, HostRead) for a device's memory: registers the table, probes, keeps what is chosen.

    Raises InputError if `wanted` is uva and registration is refused.
    """
    if isinstance(memory, HostMemory) and wanted == "auto":
        return InPlaceReader(table, memory), HostRead("uva", "the CPU reads host rows in place")
    count = min(PROBE_ROWS, max_rows, table.rows)
    rows = np.sort(np.random.default_rng(0).choice(table.rows, count, replace=False)).astype(np.int64)
    source = np.full(count, FROM_HOST, np.int32)
    records = memory.zeros((count, table.stride))
    readers = {}

    def rate(mode, open_one):
        readers[mode] = reader = open_one()

        def work():
            reader.gather(rows, source, None, records)
            memory.synchronize()

        return median_rate(work, count * table.stride * 4)

    def open_copy():
        return CopyReader(table, max_rows, memory)

    chosen = choose(wanted, lambda: rate("uva", lambda: InPlaceReader(table, memory)), lambda: rate("copy", open_copy))
    return readers.get(chosen.mode) or open_copy(), chosen
