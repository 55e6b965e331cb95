"""The transfer of a step to the device: its batch, which the host packs into one block (csrc/step/step_block.h) to copy
it at once, and then the plans of its rows, from the memory that the planner writes."""
from __future__ import annotations

from collections import deque
from typing import Callable, Deque, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ... import _native
from ...store.device.device import Device, Event, no_op
from ...store.rows.device_rows import STEPS_ON_DEVICE, DeviceRows, Plan, PlanMemory, arrays_of

TABLES = ("entity", "relation", "projection")
BATCHES_KEPT = 8  # that may not be on the device yet
EVERY = -1  # table, instead of the number of one


class BatchForm(NamedTuple):
    """The facts of a batch that decide the shapes and the formulas of its step."""

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
        prefetched: the event after the last prefetch, for the step to wait for; None where submitted work waits for all
        prefetches, which takes a call but is sooner done.
    """

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int]):
        self.layout, self.in_place = layout, in_place
        self.resident = None if in_place in (None, EVERY) else tables[in_place].resident
        self.block = device.zeros(layout.bytes, dtype=np.uint8)
        self.fields = arrays_of(self.block, layout.fields)
        self._device = device
        plan_memories = [rows.plan_memory() if rows.planned else None for rows in tables]
        self.plans = [self._plan(*each) for each in zip(TABLES, layout.table_rows, plan_memories)]
        self.records = [None if in_place in (t, EVERY) else rows.make_records(len(plan.rows))
                        for t, (plan, rows) in enumerate(zip(self.plans, tables))]
        self.prefetched = device.make_event() if any(rows.planned for rows in tables) else None
        self._prefetch = self._make_prefetch(tables, plan_memories)

    def _plan(self, table: str, count: int, memory: Optional[PlanMemory]) -> Plan:
        plan = Plan(self.fields[f"{table}_rows"]) if memory is None else memory.plan.cut(count)
        busy = "entity_busy" if table == "entity" else "relation_busy"  # projections are those of relations
        return plan._replace(step=self.fields["step"], busy=self.fields[busy])

    def _make_prefetch(self, tables: Sequence[DeviceRows],
                       plan_memories: Sequence[Optional[PlanMemory]]) -> Callable[[torch.Tensor], Callable[[], None]]:
        """A function that takes the running step's packed block and returns the work of its prefetch."""
        device = self._device
        prefetch_rows = [rows.prefetch(plan, records) for rows, plan, records in zip(tables, self.plans, self.records)]
        prefetch_rows = [prefetch for prefetch in prefetch_rows if prefetch is not no_op]
        planned = [t for t, memory in enumerate(plan_memories) if memory is not None]
        if len(planned) == len(prefetch_rows) == 1:
            table = planned[0]
            whole = tables[table].whole_prefetch(self.block, plan_memories[table], self.plans[table],
                                                 self.records[table])
            if whole is not None:
                return lambda packed: whole(packed.data_ptr())
        addresses = [self.block.data_ptr(), *(plan_memories[t].memory.data_ptr() for t in planned)]

        def prefetch(packed: torch.Tensor) -> Callable[[], None]:
            pieces = packed, *(tables[t].final_plan() for t in planned)

            def work() -> None:
                device.fetch([(to, memory.data_ptr(), memory.numel()) for to, memory in zip(addresses, pieces)])
                for each in prefetch_rows:
                    each()

            return work

        return prefetch

    def prefetch(self, packed: torch.Tensor, after: Optional[Event]) -> None:
        """Copy a packed block to the device after `after`, and the final plans of the tables that are planned, and the
        rows that can be read before the computation."""
        self._device.prefetch(self._prefetch(packed), after, self.prefetched)


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
        """The block of a batch, which is its own while there is the batch; None if it is in no block."""
        number = self.packer.block_of(batch)
        return None if number < 0 else self._blocks[number]


class BlockTransfer:
    """Takes steps of one shape to the device, while earlier steps compute and are written back."""

    def __init__(self, device: Device, layout: _native.StepBlock, tables: Sequence[DeviceRows],
                 in_place: Optional[int] = None, packed: Optional[PackedBatches] = None):
        """in_place: see DeviceBlock. packed: of the same layout, where batches may have been packed already."""
        self._device, self._layout, self._packed = device, layout, packed
        self.blocks = [DeviceBlock(device, layout, tables, in_place) for _ in range(STEPS_ON_DEVICE)]
        self._own: Dict[int, torch.Tensor] = {}  # by turn: where batches are packed that are in no block yet
        self._sent: Deque[Tuple[_native.Batch, Event]] = deque()  # whose blocks nobody else may have before
        self._turn = -1

    def send(self, batch: _native.Batch, after: Optional[Event] = None) -> int:
        """Prefetch the running step, after `after`. Returns the number of its device block; `keep` is to follow.

        after: the write-back of the step STEPS_ON_DEVICE before, if there was one, the last to use the block.
        """
        self._turn = turn = (self._turn + 1) % STEPS_ON_DEVICE
        packed = self._packed.find(batch) if self._packed else None
        if packed is None:
            packed = self._pack(batch, turn)
        self.blocks[turn].prefetch(packed, after)
        return turn

    def keep(self, batch: _native.Batch, written_back: Event) -> None:
        """The batch that was sent last needs its packed block until then at most."""
        self._sent.append((batch, written_back))
        if len(self._sent) == BATCHES_KEPT:  # to ask for an event takes a call, so it is asked for several together
            self._forget(BATCHES_KEPT // 2)

    def _forget(self, count: int) -> None:
        """Let go of the batches that were sent first, when their steps have been written back."""
        if count:
            self._device.wait_for(self._sent[count - 1][1])
        for _ in range(count):
            self._sent.popleft()

    def _pack(self, batch: _native.Batch, turn: int) -> torch.Tensor:
        if turn not in self._own:
            self._own[turn] = self._device.pinned(self._layout.bytes, dtype=np.uint8)
        self._forget(max(0, len(self._sent) - STEPS_ON_DEVICE + 1))  # the last one of this turn has left its memory
        self._layout.pack(batch, self._own[turn].numpy())
        return self._own[turn]
