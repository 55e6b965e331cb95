"""How CachedRows cross the bus: each device moves its own rows, or a row's owner, which is one of the ranks, moves it
for all of them.

With owners all ranks use the same rows in the same steps, each with a plan of the same slots, and each trains some
columns. A row's owner reads all columns from the host, stores them into the records of the ranks that train them, and
writes the new values from the ranks' slots to the host. The order of the transfers is in csrc/comm/owner_transfer.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence, Tuple

import numpy as np
import torch

from ... import _native
from ..device.peer_buffer import peer_buffer
from ..device.plan_kernels import WRITE_BACK_BUFFER
from .device_rows import STEPS_ON_DEVICE, Plan, PlanMemory, Prepared
from .flush_config import SMALL_TABLE

if TYPE_CHECKING:
    from .cached_rows import CachedRows

SHAPES = 2  # that steps have: of full batches, and of the rest of an epoch
FLOAT = 4  # bytes


class RowTransfer:
    """Kernels of this device read and write the host table.

    Attributes:
        cache: (slots, stride) float32 on the device.
        memory: (host rows, cache) of a RowTable.
        crossing: how rows cross the bus during the computation; see prepare_gather.
    """

    cache: torch.Tensor

    def __init__(self, rows: CachedRows, slots: int, crossing: Optional[str] = None):
        """crossing: if the size of the table does not decide on it. Raises _native.DeviceError if the device cannot
        read the table in place."""
        self._rows, self._device = rows, rows.device
        self.crossing = crossing or _crossing(rows.table.records.nbytes)
        self._is_cuda = rows.device.torch_device.type == "cuda"
        rows.device.register(rows.table)
        self.cache = rows.device.zeros(slots, rows.stride)
        self.memory = rows.table.records, self.cache

    def make_records(self, count: int) -> torch.Tensor:
        """See DeviceRows.make_records."""
        return self._device.zeros(count, self._rows.record_stride)

    def prefetch(self, plan: Plan, records: torch.Tensor) -> Prepared:
        """Copy the rows that come from the host to the records."""
        return [_native.prepare_gather(self._rows.row_table, plan.rows, plan.source, records, self.crossing, "host")]

    def whole_prefetch(self, block: torch.Tensor, memory: PlanMemory, plan: Plan,
                       records: torch.Tensor) -> _native.PreparedPrefetch:
        """The same, of the step's block and plan as well."""
        return _native.prepare_prefetch(self._rows.row_table, block, memory.memory, plan.rows, plan.source, records,
                                        self.crossing)

    def write_back(self, plan: Plan, counter: np.ndarray, turn: torch.Tensor) -> Prepared:
        """Write the rows in the write-back buffer to the host, and then publish the step. turn: (1,) int32 of the
        kernel."""
        if self._is_cuda:
            return [self.write_back_kernel(plan, WRITE_BACK_BUFFER, self.crossing, counter, plan.published, turn)]
        return [self.write_back_kernel(plan, WRITE_BACK_BUFFER, self.crossing),
                self._device.storing(counter, plan.published)]

    def write_back_kernel(self, plan: Plan, wanted: int, crossing: str, *publication):
        """A kernel that writes the rows of the plan to the host that leave as `wanted`."""
        return _native.prepare_write_back(self._rows.row_table, plan.rows, plan.leave, plan.target, crossing, wanted,
                                          *publication, evicted=plan.evicted, first_buffer_slot=plan.first_buffer_slot)

    def write_back_evicted(self, listed: torch.Tensor, step: int) -> None:
        """In submitted work: write evicted rows (WRITE_BACK records as bytes) to the host before the engine's step."""
        _native.write_back_evicted(self._rows.row_table, listed, self._device.stream)

    def close(self) -> None:
        """Nobody else reads the memory any more."""


class OwnerTransfer(RowTransfer):
    """Owners move rows. The table is a part of a shared one (_native.HostTable.all_parts), this rank's columns.

    To be connected with the other ranks' before the first step is prepared.
    """

    def __init__(self, rows: CachedRows, slots: int, most: int):
        """most: rows of a step. Raises _native.DeviceError if the host rows, or memory for all ranks, are refused."""
        self._rows, self._device = rows, rows.device
        self._host = rows.device.share(rows.table.all_parts)
        self.crossing = _crossing(self._host.nbytes)
        first = _native.OWNER_WORD_BYTES
        records = first + slots * rows.stride * FLOAT
        count = SHAPES * STEPS_ON_DEVICE
        self._buffer = peer_buffer(records + count * most * rows.record_stride * FLOAT, rows.device,
                                   "rows that GPUs send each other")
        floats = self._buffer.memory.view(torch.float32)
        self._records = floats[records // FLOAT :].view(count, most, rows.record_stride)
        self.cache = floats[first // FLOAT :][: slots * rows.stride].view(slots, rows.stride)
        self.memory = self.cache, self.cache  # only the owner's kernels read host rows
        self._prefetch_turn = rows.device.zeros(1, dtype=np.int32)
        self._native: Optional[_native.OwnerTransfer] = None
        self._made = 0  # records

    @property
    def handle(self) -> str:
        """For `connect` in the other ranks."""
        return self._buffer.handle

    def connect(self, exchange: _native.Exchange, handles: Sequence[str]) -> None:
        """handles: of all ranks in order. exchange: of the same ranks; a rank that fails ends all waiting by it. Raises
        _native.DeviceError."""
        with self._device.current():
            buffers = [self._buffer.memory.data_ptr() if handle == self.handle else self._buffer.open(handle)
                       for handle in handles]
            self._native = _native.OwnerTransfer(exchange, self._host, self._rows.row_table, buffers)

    def make_records(self, count):
        """In all ranks at the same place, since all ask in the same order."""
        self._made += 1
        return self._records[self._made % len(self._records), :count]

    def prefetch(self, plan, records):
        return [self._native.prepare_prefetch(*self._reads(plan, records))]

    def whole_prefetch(self, block, memory, plan, records):
        return self._native.prepare_whole_prefetch(block, memory.memory, *self._reads(plan, records))

    def _reads(self, plan: Plan, records: torch.Tensor) -> Tuple:
        return plan.rows, plan.source, records, plan.published, self._prefetch_turn, self.crossing

    def write_back(self, plan, counter, turn):
        return [self._native.prepare_write_back(plan.rows, plan.leave, plan.target, counter, plan.published, turn,
                                                self.crossing)]

    def write_back_evicted(self, listed, step):
        self._native.write_back_evicted(listed, step, self._device.stream)

    def close(self):
        self._buffer.close()


def _crossing(table_bytes: int) -> str:
    return "small_table" if table_bytes <= SMALL_TABLE else "bus"
