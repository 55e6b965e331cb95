"""The way of a step to the device: its batch as a block (csrc/step/step_block.h), packed on the host and transferred by
one copy, and beside it the plans of its rows, where the planner has written them."""
from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Optional, Sequence

import numpy as np
import torch

from ... import _native
from ...store.device import Device, Event
from ...store.device_rows import STEPS_ON_DEVICE, DeviceRows, Plan, PlanMemory

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
        plans: of each table.
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
        self._arriving = [rows.plan_memory() if rows.planned else None for rows in tables]
        self.plans = [self._plan(*each) for each in zip(TABLES, layout.table_rows, self._arriving)]
        self.records = [None if in_place in (t, EVERY) else device.zeros(len(plan.rows), rows.record_stride)
                        for t, (plan, rows) in enumerate(zip(self.plans, tables))]


    def _plan(self, table: str, count: int, arriving: Optional[PlanMemory]) -> Plan:
        if arriving is None:
            return Plan(self.fields[f"{table}_rows"], step=self.fields["step"])
        return arriving.plan.cut(count)._replace(step=self.fields["step"])

    def arrive(self, packed: torch.Tensor, plans: Sequence[torch.Tensor]) -> None:
        """In submitted work: copy a packed block here, and the final plans of the tables that are planned."""
        self.block.copy_(packed, non_blocking=True)
        for arriving, plan in zip(filter(None, self._arriving), plans):
            arriving.memory.copy_(plan, non_blocking=True)


class _HostBlock:
    """Where batches are packed that go to a device block."""

    def __init__(self, device: Device, at: DeviceBlock, tables: Sequence[DeviceRows]):
        self._at, self._packed = at, device.pinned(at.layout.bytes, dtype=np.uint8)
        self._arrivals = [rows.arrival(plan, records) for rows, plan, records in zip(tables, at.plans, at.records)]
        self.array = self._packed.numpy()
        self.arrived = Event()  # behind the last step that was here

    def arrival(self, plans: Sequence[torch.Tensor]) -> Callable[[], None]:
        """Work that brings what was packed to the device, with these plans and what of the rows can come before they
        are gathered."""
        def work():
            self._at.arrive(self._packed, plans)
            for arrive in self._arrivals:
                arrive()

        return work


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
        self._layout.pack(batch, host.array)
        plans = [rows.final_plan() for rows in self._tables if rows.planned]
        host.arrived = self._device.arrive(host.arrival(plans), after)
        return self._turn
