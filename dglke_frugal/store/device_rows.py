"""Rows of one rank on a device: carries out the engine's plans with the kernels of csrc/kernels.

The cache lies in device memory. A step's records (embedding, state, padding) are gathered from it and from host memory,
and the update sends each row where the plan says: into its slot, to staging, or to its host row.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from .. import _native
from .plan_kernels import WRITE_BACK, as_bytes, update_rows, write_back_rows

ROWS_PER_COPY = 65536  # of the cache, when it is drained


class DeviceRows:
    """Steps of one rank, in order: announce ahead; begin, compute, end.

    table: the host table. port: the rank's RankPort. slots: of its cache policy. max_rows: distinct rows of a step.
    memory: HostMemory or CudaMemory. reader: see host_read.open_reader; one that copies cannot serve an engine whose
    values go straight to the host rows. Raises _native.DeviceError if cache or staging cannot be had.
    """

    def __init__(self, table: _native.HostTable, port, learning_rate: float, slots: int, max_rows: int, memory, reader):
        self._table, self._port, self._memory, self._reader = table, port, memory, reader
        self._learning_rate = learning_rate
        self._staging = memory.share(port.staging())
        self._cache = memory.zeros((slots, table.stride)) if slots else None
        self._records = memory.zeros((max_rows, table.stride))

    def announce(self, step: int, rows: np.ndarray, occurrences: Sequence[int] = ()) -> None:
        """Step `step` will use `rows` (U,) int64, ascending, distinct; see RankPort.register_step for occurrences."""
        self._port.register_step(step, rows, np.asarray(occurrences, np.int32))

    def begin(self, step: int):
        """Wait until the step's rows may be read; returns their records (U, stride) on the device, until `end`."""
        rows, source, leave, target = self._port.plan(step)
        self._send_write_backs(step)
        self._port.wait_gate(step)
        self._plan = step, leave, target
        records = self._records[: len(rows)]
        self._reader.gather(rows, source, self._cache, records)
        return records

    def end(self, entries) -> None:
        """Row-wise Adagrad for the step's entries, then every row leaves as planned.

        entries: at most two of (gradients (n, dim) float32, offset (U + 1,) int32, order (n,) int32 or None), on the
        device. Row u's occurrences are the gradients order[offset[u]:offset[u + 1]]; without an order, offset[u] to
        offset[u + 1] themselves.
        """
        step, leave, target = self._plan
        put = self._memory.put
        update_rows(self._table.dim, self._table.records, self._cache, self._staging, put(leave), put(target),
                    self._records[: len(leave)], list(entries), self._learning_rate, self._memory.stream)
        self._memory.synchronize()
        self._port.publish(step)

    def drain(self) -> None:
        """Between two steps: wait until the host table holds every update."""
        rows, slots = self._port.drain()
        for begin in range(0, len(rows), ROWS_PER_COPY):
            part = slice(begin, begin + ROWS_PER_COPY)
            records = self._cache[self._memory.put(slots[part].astype(np.int64))]
            self._table.records[rows[part]] = self._memory.get(records)
        self._port.finish_drain()

    def _send_write_backs(self, step: int) -> None:
        while True:
            row, slot, leave, target = self._port.write_backs(step)
            if not len(row):
                return
            leaving = np.zeros(len(row), WRITE_BACK)
            leaving["row"], leaving["slot"], leaving["leave"], leaving["target"] = row, slot, leave, target
            write_back_rows(self._table.dim, self._table.records, self._cache, self._staging,
                            self._memory.put(as_bytes(leaving)), self._memory.stream)
            self._memory.synchronize()
            self._port.publish_write_backs(len(row))
