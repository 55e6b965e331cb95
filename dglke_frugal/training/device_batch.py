"""The way of a step's block (csrc/step/step_block.h) to the device: packed on the host, transferred by one copy."""
from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch

from .. import _native
from ..store.device import Device, Mark
from ..store.device_rows import DeviceRows, Plan

HOST_BLOCKS = 4  # steps whose packed block may be on its way
DEVICE_BLOCKS = 2  # one is filled while the step of the other runs
TABLES = ("entity", "relation", "projection")


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
        records: of each table (rows, stride): embedding, state, padding; None for the one that is in_place.
        in_place: the number of the table whose rows the step works on where they lie, or None.
        resident: that table.
    """

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int]):
        self.layout, self.in_place = layout, in_place
        self.resident = None if in_place is None else tables[in_place].resident
        self.block = device.zeros(layout.bytes, dtype=np.uint8)
        self.fields: Dict[str, torch.Tensor] = {
            name: self.block[begin : begin + np.dtype(dtype).itemsize * length].view(getattr(torch, dtype))
            for name, dtype, begin, length in layout.fields}
        self.plans = [Plan.of(name, self.fields) for name in TABLES[: len(tables)]]
        self.records = [None if t == in_place else device.zeros(len(plan.rows), rows.stride)
                        for t, (plan, rows) in enumerate(zip(self.plans, tables))]
        self.used: Optional[Mark] = None  # behind the last step that was here


class _HostBlock:
    """One of the blocks that are packed in turn."""

    def __init__(self, device: Device, layout: _native.StepBlock, tables: int):
        self.tensor = device.pinned(layout.bytes, dtype=np.uint8)
        self.array = self.tensor.numpy()
        views = {name: self.array[begin : begin + np.dtype(dtype).itemsize * length].view(dtype)
                 for name, dtype, begin, length in layout.fields}
        self.plans = [Plan.of(name, views) for name in TABLES[:tables]]
        self.sent = Mark()


class BlockTransfer:
    """Packs steps of one shape and takes them to the device, beside the step that runs there."""

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int] = None):
        """in_place: see DeviceBlock."""
        self._device, self._layout, self._tables = device, layout, tables
        self.blocks = [DeviceBlock(device, layout, tables, in_place) for _ in range(DEVICE_BLOCKS)]
        self._hosts = [_HostBlock(device, layout, len(tables)) for _ in range(HOST_BLOCKS)]
        arrivals = [[rows.arrival(plan, records) for rows, plan, records in zip(tables, block.plans, block.records)]
                    for block in self.blocks]
        self._works = [self._work(host.tensor, self.blocks[i % DEVICE_BLOCKS].block, arrivals[i % DEVICE_BLOCKS])
                       for i, host in enumerate(self._hosts)]
        self._turn = -1

    @staticmethod
    def _work(packed: torch.Tensor, block: torch.Tensor, arrivals: List[Callable[[], None]]) -> Callable[[], None]:
        def work():
            block.copy_(packed, non_blocking=True)
            for arrive in arrivals:
                arrive()

        return work

    def send(self, batch: _native.Batch) -> int:
        """Pack and transfer the running step, once its buffers are free. Returns the number of its device block."""
        self._turn = (self._turn + 1) % HOST_BLOCKS
        host, number = self._hosts[self._turn], self._turn % DEVICE_BLOCKS
        host.sent.wait()
        self._layout.pack(batch, [rows.running for rows in self._tables], host.array)
        for rows, plan in zip(self._tables, host.plans):
            rows.amend(plan)
        self._device.transfer(self._works[self._turn], after=self.blocks[number].used)
        return number

    def sent(self) -> None:
        """All work of the step that was sent last has been submitted."""
        mark = self._device.mark()
        self._hosts[self._turn].sent = self.blocks[self._turn % DEVICE_BLOCKS].used = mark
