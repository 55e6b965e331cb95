"""Rows of a table that lies in device memory as a whole: relations, or entities where no engine is wanted.

To the kernels the device's copy is the host's table, and where the device works in place it is.
"""
from __future__ import annotations

from collections import deque
from typing import Dict, Optional, Tuple

import numpy as np
import torch

from ... import _native
from ..device.device import Device
from ..device.plan_kernels import FROM_HOST, TO_HOST_ROW
from .device_rows import NO_OCCURRENCES, DeviceRows
from .half_embeddings import Rounding


class ResidentRows(DeviceRows):
    """Rows that are updated where they are, by their ids.

    Attributes:
        steps_run: steps that have ended.
    """

    _read_by_kernels = "all"
    planned = False

    def __init__(self, table: _native.HostTable, device: Device, rounding: Optional[Rounding] = None):
        super().__init__(table, device, table.rows, rounding=rounding)
        self.resident = None if rounding else self.cache
        self._announced = deque()
        self._in_place: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}
        self._uploaded = device.in_place
        self.steps_run = 0

    def _make_cache(self, slots):
        return torch.from_numpy(self.table.records) if self.device.in_place else super()._make_cache(slots)

    def announce(self, step, rows, occurrences=NO_OCCURRENCES):
        self._announced.append(step)

    def _announce(self, batch, rows, gradients):
        self._announced.append(batch.step)  # whichever rows

    def begin(self, step):
        announced = self._announced.popleft()
        if announced != step:
            raise ValueError(f"step {step} begins where step {announced} was announced")
        if not self._uploaded:  # not before: a checkpoint may have been loaded into the host table meanwhile
            self._upload()

    def _upload(self):
        records = self.table.records

        def work():
            for first in range(0, len(records), self._rows_per_copy):
                part = slice(first, min(len(records), first + self._rows_per_copy))
                self.cache[part].copy_(torch.from_numpy(records[part]))

        self.device.submit(work)
        self._uploaded = True

    def _memory(self):
        return self.cache, None, None

    def _complete(self, plan):
        count = len(plan.rows)
        if count not in self._in_place:  # at addresses that stay
            self._in_place[count] = self._full(count, FROM_HOST, np.int32), self._full(count, TO_HOST_ROW, np.uint8)
        source, leave = self._in_place[count]
        return plan._replace(source=source, leave=leave, target=plan.rows)

    def _full(self, count: int, value: int, dtype) -> torch.Tensor:
        """Copied from the host, which waits for it: whichever stream reads it then finds the values."""
        return torch.from_numpy(np.full(count, value, dtype)).to(self.device.torch_device)

    def end(self):
        self.steps_run += 1

    def drain(self):
        if not self._uploaded or self.device.in_place:
            return
        self.device.synchronize()
        everything = np.arange(self.table.rows)
        self._download(everything, everything)
