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
from ..errors import InputError
from .plan_kernels import FROM_HOST, gather_rows, pack_host_rows

HOST_READS = ("auto", "uva", "copy")
PROBE_ROWS, PROBE_REPEATS = 4096, 5


@dataclass(frozen=True)
class HostRead:
    """What was chosen. `reason` is one sentence for the log; rates are in bytes per second, None where not measured."""

    mode: str
    reason: str
    uva_rate: Optional[float] = None
    copy_rate: Optional[float] = None


class UvaReader:
    """Reads host rows in place. The registration lives as long as this object.

    Raises _native.DeviceError, and registers nothing, if the system refuses.
    """

    def __init__(self, table: _native.HostTable):
        self._table = table
        self._registration = _native.HostRegistration(table)

    def gather(self, rows, source, cache, records, stream: int = 0) -> None:
        """records[u] (U, stride) = record of rows[u] (U,) int64, from cache slot source[u] (U,) int32 or, at -1, from
        host.

        rows and source: NumPy arrays or pinned tensors on the CPU, which the kernel reads in place too if they are
        registered; else tensors on the device.
        """
        gather_rows(self._table.dim, self._table.records, cache, rows, source, records, stream)


class CopyReader:
    """Gathers host rows on the CPU into a pinned buffer and copies that to the device, at most max_rows at a time."""

    def __init__(self, table: _native.HostTable, max_rows: int, device):
        import torch

        self._table = table
        pin = torch.device(device).type == "cuda"
        # Small, so that torch's rounding of pinned memory to powers of two does not matter.
        self._packed = torch.empty((max_rows, table.stride), pin_memory=pin)
        self._packed_row = torch.empty(max_rows, dtype=torch.int64, pin_memory=pin)
        self._device_packed = torch.empty((max_rows, table.stride), device=device)
        self._device_row = torch.empty(max_rows, dtype=torch.int64, device=device)
        self._copied = torch.cuda.Event() if pin else None

    def gather(self, rows, source, device_source, cache, records, stream: int = 0) -> None:
        """As UvaReader.gather, with rows and source as NumPy arrays on the CPU, and source once more on the device.

        Enqueues on torch's current stream, which `stream` must be. The buffers are used again by the next call.
        """
        count = len(rows)
        if count > len(self._packed):
            raise ValueError(f"{count} rows do not fit into buffers of {len(self._packed)}")
        if self._copied is not None:
            self._copied.synchronize()  # of the last call: its copy may still be reading the pinned buffer
        misses = pack_host_rows(self._table.dim, self._table.records, rows, source, self._packed, self._packed_row)
        self._device_packed[:misses].copy_(self._packed[:misses], non_blocking=True)
        self._device_row[:count].copy_(self._packed_row[:count], non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        gather_rows(self._table.dim, self._device_packed, cache, self._device_row[:count], device_source, records,
                    stream)


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


def open_reader(table: _native.HostTable, max_rows: int, device, wanted: str = "auto"):
    """(reader, HostRead) for a CUDA device: registers the table, probes, keeps what is chosen.

    Raises InputError if `wanted` is uva and registration is refused.
    """
    import torch

    count = min(PROBE_ROWS, max_rows, table.rows)
    rows = np.sort(np.random.default_rng(0).choice(table.rows, count, replace=False)).astype(np.int64)
    source = np.full(count, FROM_HOST, np.int32)
    records = torch.empty((count, table.stride), device=device)
    device_rows, device_source = torch.from_numpy(rows).to(device), torch.from_numpy(source).to(device)
    stream = torch.cuda.current_stream(device).cuda_stream
    readers = {}

    def uva_rate():
        readers["uva"] = reader = UvaReader(table)

        def work():
            reader.gather(device_rows, device_source, None, records, stream)
            torch.cuda.synchronize(device)

        return median_rate(work, records.numel() * 4)

    def copy_rate():
        readers["copy"] = reader = CopyReader(table, max_rows, device)

        def work():
            reader.gather(rows, source, device_source, None, records, stream)
            torch.cuda.synchronize(device)

        return median_rate(work, records.numel() * 4)

    chosen = choose(wanted, uva_rate, copy_rate)
    if chosen.mode not in readers:
        readers["copy"] = CopyReader(table, max_rows, device)
    return readers[chosen.mode], chosen
