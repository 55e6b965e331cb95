"""The way of a step's block (csrc/step/step_block.h) to the device: packed on the host, transferred by one copy."""
from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import torch

from .. import _native
from ..store.device import Device, Mark
from ..store.device_rows import DeviceRows, Plan

BUFFERS = 4  # steps whose packed block may be on its way
TABLES = ("entity", "relation", "projection")


class BatchForm(NamedTuple):
    """What of a batch decides the shapes and the formulas of its step."""

    positives: int
    chunks: int
    negatives: int  # of a chunk
    corrupt_head: bool
    weighted: bool


class _HostBlock:
    """One of the blocks that are packed in turn."""

    def __init__(self, layout: _native.StepBlock, block: torch.Tensor, tables: int):
        self.tensor, self.array = block, block.numpy()
        views = {name: self.array[begin : begin + np.dtype(dtype).itemsize * length].view(dtype)
                 for name, dtype, begin, length in layout.fields}
        self.plans = [Plan.of(name, views) for name in TABLES[:tables]]
        self.sent = Mark()


class BlockTransfer:
    """Packs steps of one shape and takes them to the device.

    Attributes:
        layout: of the block.
        block: (bytes,) uint8 in device memory, at an address that stays and may be captured.
        fields: its arrays by name.
        plans: of each table, out of them.
    """

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows]):
        self.layout, self._device, self._tables = layout, device, tables
        self._hosts = [_HostBlock(layout, device.pinned(layout.bytes, dtype=np.uint8), len(tables))
                       for _ in range(BUFFERS)]
        self._turn = 0
        self.block = device.zeros(layout.bytes, dtype=np.uint8)
        self.fields: Dict[str, torch.Tensor] = {
            name: self.block[begin : begin + np.dtype(dtype).itemsize * length].view(getattr(torch, dtype))
            for name, dtype, begin, length in layout.fields}
        self.plans = [Plan.of(name, self.fields) for name in TABLES[: len(tables)]]

    def works(self, compute: Callable[[], None]) -> List[Callable[[], None]]:
        """Work to submit, one for each buffer: the transfer of what was packed there, and then `compute`."""
        return [self._work(host.tensor, compute) for host in self._hosts]

    def _work(self, packed: torch.Tensor, compute: Callable[[], None]) -> Callable[[], None]:
        def work():
            self.block.copy_(packed, non_blocking=True)
            for rows in self._tables:
                rows.prepare()
            compute()

        return work

    def pack(self, batch: _native.Batch) -> int:
        """Pack the running step once the buffer whose turn it is has been sent; returns that buffer's number."""
        host = self._hosts[self._turn]
        host.sent.wait()
        self.layout.pack(batch, [rows.running for rows in self._tables], host.array)
        for rows, plan in zip(self._tables, host.plans):
            rows.amend(plan)
        return self._turn

    def sent(self) -> None:
        """The work of the buffer that was packed last has been submitted."""
        self._hosts[self._turn].sent = self._device.mark()
        self._turn = (self._turn + 1) % BUFFERS


class StepShape(NamedTuple):
    """Where steps of one shape find their batch and their rows."""

    form: BatchForm
    transfer: BlockTransfer
    records: List[torch.Tensor]  # of each table (rows, stride): embedding, state, padding
