"""The way of a step's block (csrc/step/step_block.h) to the device: packed on the host, transferred by one copy."""
from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence

import numpy as np
import torch

from ... import _native
from ...store.device import Device, Event
from ...store.device_rows import STEPS_ON_DEVICE, DeviceRows, Plan

TABLES = ("entity", "relation", "projection")
EVERY = -1  # table, instead of the number of one


class BatchForm(NamedTuple):
    """What of a batch decides the shapes and the formulas of its step."""

    positives: int
    chunks: int
    negatives: int  # of a chunk
    corrupt_head: bool
    weighted: bool


class DeviceBlock:
    """Where a step finds its batch and its rows, at addresses that stay and may be captured.

    Attributes:
        layout: of the block.
        block: (bytes,) uint8 in device memory.
        fields: its arrays by name.
        plans: of each table, out of them.
        records: of each table (rows, record_stride): embedding, state, padding; None for the one that is in_place.
        in_place: the number of the table whose rows the step works on where they lie, EVERY or None.
        resident: that table, if it is one.
    """

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int]):
        self.layout, self.in_place = layout, in_place
        self.resident = None if in_place in (None, EVERY) else tables[in_place].resident
        self.block = device.zeros(layout.bytes, dtype=np.uint8)
        self.fields: Dict[str, torch.Tensor] = {
            name: self.block[begin : begin + np.dtype(dtype).itemsize * length].view(getattr(torch, dtype))
            for name, dtype, begin, length in layout.fields}
        self.plans = [Plan.of(name, self.fields) for name in TABLES[: len(tables)]]
        self.records = [None if in_place in (t, EVERY) else device.zeros(len(plan.rows), rows.record_stride)
                        for t, (plan, rows) in enumerate(zip(self.plans, tables))]


class _HostBlock:
    """Where a step is packed that goes to a device block, by `work`."""

    def __init__(self, device: Device, at: DeviceBlock, tables: Sequence[DeviceRows]):
        packed = device.pinned(at.layout.bytes, dtype=np.uint8)
        arrivals = [rows.arrival(plan, records) for rows, plan, records in zip(tables, at.plans, at.records)]

        def work():
            at.block.copy_(packed, non_blocking=True)
            for arrive in arrivals:
                arrive()

        self.array, self.work = packed.numpy(), work
        views = {name: self.array[begin : begin + np.dtype(dtype).itemsize * length].view(dtype)
                 for name, dtype, begin, length in at.layout.fields}
        self.plans = [Plan.of(name, views) for name in TABLES[: len(tables)]]
        self.arrived = Event()  # behind the last step that was here


class BlockTransfer:
    """Packs steps of one shape and takes them to the device, beside the steps that compute and depart there."""

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int] = None):
        """in_place: see DeviceBlock."""
        self._device, self._layout, self._tables = device, layout, tables
        self.blocks = [DeviceBlock(device, layout, tables, in_place) for _ in range(STEPS_ON_DEVICE)]
        self._hosts = [_HostBlock(device, block, tables) for block in self.blocks]
        self._turn = -1

    def send(self, batch: _native.Batch, after: Optional[Event] = None) -> int:
        """Pack the running step and let it arrive, behind `after`. Returns the number of its device block.

        after: the departure of the step STEPS_ON_DEVICE before, if there was one; it has used the block at the latest.
        """
        self._turn = (self._turn + 1) % STEPS_ON_DEVICE
        host = self._hosts[self._turn]
        host.arrived.wait()
        self._layout.pack(batch, [rows.running for rows in self._tables], host.array)
        for rows, plan in zip(self._tables, host.plans):
            rows.amend(plan)
        host.arrived = self._device.arrive(host.work, after)
        return self._turn
