"""The way of a step to the device: its batch as a block (csrc/step/step_block.h), packed on the host, as a rule when it
was made, and transferred by one copy; and beside it the plans of its rows, from where the planner has written them."""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

import numpy as np
import torch

from ... import _native
from ...store.device import Device, Event
from ...store.device_rows import STEPS_ON_DEVICE, DeviceRows, Plan, PlanMemory, arrays_of

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
        self.fields = arrays_of(self.block, layout.fields)
        self._device = device
        arriving = [rows.plan_memory() if rows.planned else None for rows in tables]
        self._addresses = [memory.data_ptr() for memory in
                           (self.block, *(each.memory for each in arriving if each is not None))]
        self.plans = [self._plan(*each) for each in zip(TABLES, layout.table_rows, arriving)]
        self.records = [None if in_place in (t, EVERY) else device.zeros(len(plan.rows), rows.record_stride)
                        for t, (plan, rows) in enumerate(zip(self.plans, tables))]

    def _plan(self, table: str, count: int, arriving: Optional[PlanMemory]) -> Plan:
        if arriving is None:
            return Plan(self.fields[f"{table}_rows"], step=self.fields["step"])
        return arriving.plan.cut(count)._replace(step=self.fields["step"])

    def take(self, packed: torch.Tensor, plans: Sequence[torch.Tensor]) -> None:
        """In work that is sent: copy a packed block here, and the final plans of the tables that are planned."""
        self._device.copy(self._addresses[0], packed.data_ptr(), packed.numel())
        for address, plan in zip(self._addresses[1:], plans):
            self._device.copy(address, plan.data_ptr(), plan.numel())


class BatchSizes(NamedTuple):
    """Sizes of a batch, by which its block is laid out."""

    positives: int
    chunk_size: int
    negatives: int  # of a chunk
    weighted: bool

    def layout(self, tables: Sequence[DeviceRows]) -> _native.StepBlock:
        """Of batches that train on these tables."""
        rows = [2 * self.positives + self.positives // self.chunk_size * self.negatives]
        rows += [self.positives] * (len(tables) - 1)
        return _native.StepBlock(*self, [(name, min(each.most_rows, most), each.scratch, each.planned)
                                         for name, each, most in zip(TABLES, tables, rows)])


class PackedBatches:
    """Blocks that batches are packed in when they are made, by the threads that make them.

    Attributes:
        packer: for those threads.
    """

    def __init__(self, device: Device, layout: _native.StepBlock, count: int):
        memory = device.pinned(count, layout.bytes, dtype=np.uint8)
        self._blocks = memory.unbind()
        self.packer = _native.BatchPacker(layout, memory.numpy().reshape(-1))

    def find(self, batch: _native.Batch) -> Optional[torch.Tensor]:
        """The block of a batch, which is its own while there is the batch; None if it is in none of these."""
        number = self.packer.block_of(batch)
        return None if number < 0 else self._blocks[number]


class _Arrival:
    """The way to one device block."""

    def __init__(self, device: Device, at: DeviceBlock, tables: Sequence[DeviceRows]):
        self._device, self._at = device, at
        self._arrivals = [rows.arrival(plan, records) for rows, plan, records in zip(tables, at.plans, at.records)]
        self._own: Optional[torch.Tensor] = None  # where batches are packed that are in no block yet
        self._batch: Optional[_native.Batch] = None  # the last one, whose block nobody else may have until it is there
        self._arrived = Event()  # behind it

    def send(self, batch: _native.Batch, packed: Optional[torch.Tensor], plans: Sequence[torch.Tensor],
             after: Optional[Event]) -> None:
        """Let a batch arrive with these plans and what of the rows can come before they are gathered."""
        self._arrived.wait()
        self._batch = batch
        if packed is None:
            packed = self._pack(batch)

        def arrive():
            for rows in self._arrivals:
                rows()

        sent = self._device.send(lambda: self._at.take(packed, plans), after)
        self._arrived = self._device.arrive(arrive, after=sent)

    def _pack(self, batch: _native.Batch) -> torch.Tensor:
        if self._own is None:
            self._own = self._device.pinned(self._at.layout.bytes, dtype=np.uint8)
        self._at.layout.pack(batch, self._own.numpy())
        return self._own


class BlockTransfer:
    """Takes steps of one shape to the device, beside the steps that compute and depart there."""

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int] = None, packed: Optional[PackedBatches] = None):
        """in_place: see DeviceBlock. packed: of the same layout, where batches may have been packed already."""
        self._tables, self._packed = tables, packed
        self.blocks = [DeviceBlock(device, layout, tables, in_place) for _ in range(STEPS_ON_DEVICE)]
        self._arrivals = [_Arrival(device, block, tables) for block in self.blocks]
        self._turn = -1

    def send(self, batch: _native.Batch, after: Optional[Event] = None) -> int:
        """Let the running step arrive, behind `after`. Returns the number of its device block.

        after: the departure of the step STEPS_ON_DEVICE before, if there was one; it has used the block at the latest.
        """
        self._turn = (self._turn + 1) % STEPS_ON_DEVICE
        packed = self._packed.find(batch) if self._packed else None
        plans = [rows.final_plan() for rows in self._tables if rows.planned]
        self._arrivals[self._turn].send(batch, packed, plans, after)
        return self._turn
