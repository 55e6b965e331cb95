"""Rows of which each of several ranks trains some columns, and which one rank, the row's owner, moves over the bus.

All ranks use the same rows in the same steps, each with a plan of the same slots. A row's owner reads all columns
from the host, stores them into the records of the ranks that train them, and writes the new values from the ranks'
slots to the host. The order of these transfers is in csrc/comm/owner_transfer.h.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import numpy as np
import torch

from ... import _native
from ..device.device import Device
from ..device.peer_buffer import peer_buffer
from .device_rows import STEPS_ON_DEVICE
from .engine_rows import DirectWriteRows
from .flush_config import SMALL_TABLE, FlushConfig
from .half_embeddings import Rounding

SHAPES = 2  # that steps have: of full batches, and of the rest of an epoch
FLOAT = 4  # bytes


class OwnerTransferRows(DirectWriteRows):
    """One rank's columns, `table` being a part of a shared table (_native.HostTable.all_parts).

    To be connected with the other ranks' before the first step is prepared.
    """

    def __init__(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device: Device,
                 rounding: Optional[Rounding] = None):
        """Raises _native.DeviceError if the host rows, or memory for all ranks, are refused."""
        self._host = device.share(table.all_parts)
        self._most = config.max_rows_per_step
        self._transfer: Optional[_native.OwnerTransfer] = None
        self._made = 0  # records
        super().__init__(table, client, config, device, rounding)
        self._prefetch_turn = device.zeros(1, dtype=np.int32)

    def _make_cache(self, slots):
        first = _native.OWNER_WORD_BYTES
        records = first + slots * self.stride * FLOAT
        count = SHAPES * STEPS_ON_DEVICE
        self._buffer = peer_buffer(records + count * self._most * self.record_stride * FLOAT, self.device,
                                   "rows that GPUs send each other")
        floats = self._buffer.memory.view(torch.float32)
        self._records = floats[records // FLOAT :].view(count, self._most, self.record_stride)
        return floats[first // FLOAT :][: slots * self.stride].view(slots, self.stride)

    @property
    def handle(self) -> str:
        """For `connect` in the other ranks."""
        return self._buffer.handle

    def connect(self, exchange: _native.Exchange, handles: Sequence[str]) -> None:
        """With those of all ranks in order. exchange: of these ranks, by which one that fails ends all waiting. Raises
        _native.DeviceError."""
        with self.device.current():
            buffers = [self._buffer.memory.data_ptr() if handle == self.handle else self._buffer.open(handle)
                       for handle in handles]
            self._transfer = _native.OwnerTransfer(exchange, self._host, self.row_table, buffers)

    def make_records(self, count):
        """In all ranks at the same place, since all ask in the same order."""
        self._made += 1
        return self._records[self._made % len(self._records), :count]

    def _memory(self):
        return self.cache, self.cache, None  # only the owner's kernels read host rows

    def _prefetch(self, plan, records):
        return [self._transfer.prepare_prefetch(plan.rows, plan.source, records, plan.published, self._prefetch_turn,
                                                self._crossing())]

    def _prepare_whole_prefetch(self, block, memory, plan, records):
        return self._transfer.prepare_whole_prefetch(block, memory.memory, plan.rows, plan.source, records,
                                                     plan.published, self._prefetch_turn, self._crossing())

    def _write_back(self, plan):
        return [self._transfer.prepare_write_back(plan.rows, plan.leave, plan.target, self._published_counter,
                                                  plan.published, self._turn, self._crossing())]

    def _writing_back(self) -> Callable:
        step = self._step
        return lambda listed: self._transfer.write_back_evicted(listed, step, self.device.stream)

    def close(self):
        super().close()
        self._buffer.close()

    def _crossing(self):
        return "small_table" if self._host.nbytes <= SMALL_TABLE else "bus"
