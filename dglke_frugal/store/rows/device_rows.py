"""Rows of a table as a step on a device reads and writes them.

A step's plan says where each of its rows is read from and how it leaves; it travels to the device as the planner has
written it, next to the batch (csrc/step/step_block.h). Lengths are fixed: a plan is padded with rows that are read
from, and written to, a slot of the cache that nobody else uses.
"""
from __future__ import annotations

from typing import Callable, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ... import _native
from ..._native import RowTable, prepare_gather, prepare_update
from ..device.device import Device, Event, no_op
from ..device.stalls import Stalls
from .half_embeddings import Rounding

STEPS_ON_DEVICE = _native.STEPS_ON_DEVICE  # one is prefetched, one computes, one is written back
BYTES_PER_COPY = 4 << 20  # of rows that are uploaded or downloaded together
NO_OCCURRENCES = np.empty(0, np.int32)


class Plan(NamedTuple):
    """rows (n,) int64; where an engine plans also source int32, leave uint8 and target int64, each (n,), and published
    (1,) int64, what its counter says after the step: see csrc/engine/plan.h. step (1,) int64: its number. busy int32:
    the rows with many occurrences, as update_tables takes them. evicted (n,) int64 and first_buffer_slot (1,) int64:
    the rows that the step evicts from a cache, and their first slot, if it writes them back. Arrays of the host or
    tensors of a device.
    """

    rows: object
    source: object = None
    leave: object = None
    target: object = None
    published: object = None
    step: object = None
    busy: object = None
    evicted: object = None
    first_buffer_slot: object = None

    def cut(self, count: int) -> "Plan":
        """Of the first `count` rows."""
        by_row = ["rows", "source", "leave", "target"] + ["evicted"] * (self.evicted is not None)
        return self._replace(**{name: getattr(self, name)[:count] for name in by_row})


class PlanMemory(NamedTuple):
    """Memory on the device for one plan at a time: memory (bytes,) uint8, and its arrays, which are as long as any
    step's."""

    memory: torch.Tensor
    plan: Plan


# Kernels that have their arrays: to be called in submitted work, with the number of a step's rows and the stream.
Prepared = Sequence[Callable[[int, int], None]]


class PreparedStep(NamedTuple):
    """The work of steps of different lengths on their rows, at the same addresses each time.

    prefetch: before the computation. gather: before the records are read. update: each row once, from the sum of
    its gradients. write_back: after the computation.
    """

    prefetch: Prepared
    gather: Prepared
    update: Prepared
    write_back: Prepared


def arrays_of(memory: torch.Tensor, fields: Iterable[Tuple[str, str, int, int]]) -> Dict[str, torch.Tensor]:
    """The arrays that lie in memory (bytes,) uint8, by name. fields: name, dtype, first byte and length of each."""
    return {name: memory[begin : begin + np.dtype(dtype).itemsize * length].view(getattr(torch, dtype))
            for name, dtype, begin, length in fields}


class DeviceRows:
    """The interface of a step to the rows of one table. Subclasses say where rows lie.

    For each step, in order: announce (any time ahead, within the lookahead), begin, final_plan; the prefetch of that
    plan and of the rows, after the write-back of the step STEPS_ON_DEVICE before it; wait; gather, update and publish
    in submitted work; the step's write-back; leave with the event after that, and end.

    Attributes:
        dim: floats that an embedding takes where rows lie, which in half precision are half as many as it has elements.
        stride: floats from one row to the next there.
        record_stride: floats between the records that steps compute with, in float32 always.
        scratch: where rows that only pad are read from and written to.
        planned: whether a step needs more than the ids of its rows.
        most_rows: of a step.
        stalls: how long the device has waited for rows.
        row_table: where rows lie, as the row kernels take it.
        resident: the table's records (rows, stride) in device memory, if they all lie there and a step may update them
            by their ids; else None.
        publishes_before_sync: whether `publish_before_sync` does anything.
        replicated: whether every rank has all rows, so that `update` and `receive` wait for nothing of other tables.
    """

    _read_by_kernels: Optional[str] = None  # the part of the rows that `reads` is of
    planned = True
    publishes_before_sync = False
    replicated = False
    resident: Optional[torch.Tensor] = None

    def __init__(self, table: _native.HostTable, device: Device, slots: int, more: int = 0,
                 rounding: Optional[Rounding] = None):
        """slots: rows that device memory holds; more: further ones behind those and the scratch row. rounding: of a
        table in half precision."""
        self.table, self.device, self.rounding = table, device, rounding
        self.dim, self.stride, self.record_stride = table.embedding_floats, table.stride, table.record_stride
        self.scratch, self.most_rows = slots, table.rows
        self._rows_per_copy = max(1, BYTES_PER_COPY // (4 * table.stride))
        self.stalls = Stalls()
        self.cache = self._make_cache(slots + 1 + more)
        with device.current():
            self.row_table = RowTable(table.dim, *self._memory(), table.state_floats, table.element,
                                      rounding and (rounding.seed, rounding.table, rounding.columns))

    def _make_cache(self, slots: int) -> torch.Tensor:
        return self.device.zeros(slots, self.table.stride)

    def _memory(self) -> Tuple:
        """(host rows, cache, staging) of a RowTable."""
        return self.table.records, self.cache, None

    def make_records(self, count: int) -> torch.Tensor:
        """Memory for the records of one of STEPS_ON_DEVICE steps, (count, record_stride) float32."""
        return self.device.zeros(count, self.record_stride)

    def announce(self, step: int, rows: np.ndarray, occurrences: np.ndarray = NO_OCCURRENCES) -> None:
        """Step `step` will use `rows` (U,) int64, ascending and distinct.

        occurrences: of several ranks, how many gradients each row has in each entry, (entries * U,) int32, entry after
        entry.
        """
        raise NotImplementedError

    def announce_lookup(self, step: int, lookup: _native.Lookup) -> None:
        """`announce` of the rows of a lookup, by one rank alone."""
        self.announce(step, lookup.rows)

    def begin(self, step: int) -> None:
        """Wait until it is known where the rows of the step are."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait until work that reads the rows of the running step may be submitted."""

    def plan_memory(self) -> PlanMemory:
        """New memory on the device for plans, where rows are planned."""
        raise NotImplementedError

    def final_plan(self) -> torch.Tensor:
        """The running step's plan for that memory, once: (bytes,) uint8 that the device may copy until the step is
        written back."""
        raise NotImplementedError

    def prefetch(self, plan: Plan, records: torch.Tensor) -> Callable[[], None]:
        """Work that copies the rows to the device that can be read before `gather`; `plan` and records as there."""
        return self._all(self._prefetch(plan, records), plan)

    def whole_prefetch(self, block: torch.Tensor, memory: PlanMemory, plan: Plan,
                       records: torch.Tensor) -> Optional[Callable[[int], Callable[[], None]]]:
        """`prefetch` of the rows, of the step's block (bytes,) uint8 and of its final plan by one kernel: a function
        that takes the address of the running step's packed block, once for each step, and returns that work. None
        where it takes several kernels."""
        return None

    def write_back(self, plan: Plan) -> Callable[[], None]:
        """Work that writes rows to the host which need not be written in `update`; `plan` in device memory."""
        return self._all(self._write_back(plan), plan)

    def publish_before_sync(self, plan: Plan) -> None:
        """When the running step is submitted, before its write-back: write the rows to the host that other ranks
        read in the next step."""

    def leave(self, written_back: Event) -> None:
        """The running step's write-back ends with this event."""

    def gather(self, plan: Plan, records: torch.Tensor) -> None:
        """records[u] (n, record_stride) = the record of row u; `plan` in device memory."""
        self._all(self._gather(plan, records), plan)()

    def reads(self, plan: Plan) -> Optional[tuple]:
        """The argument by which _native.compute_gradients gathers the records itself, instead of `gather`; None where
        they come over the bus, are in half precision, or are not worth it."""
        if self._read_by_kernels is None or self.rounding or plan.evicted is not None:
            return None
        plan = self._complete(plan)
        return self.row_table, plan.rows, plan.source, self._read_by_kernels

    def update(self, plan: Plan, records: torch.Tensor, entries: Sequence, used=None) -> Optional[tuple]:
        """How the rows leave, as plan_kernels.update_tables takes it: by row-wise Adagrad with these entries, whose
        gradients are by row of the plan. used (1,) int32: how many rows the plan has, without padding. None for
        rows that `receive` updates."""
        plan = self._complete(plan)
        rounded = self.rounding and (plan.step, plan.rows)
        return self.row_table, plan.leave, plan.target, records, list(entries), used, rounded, plan.busy

    def prepare(self, plan: Plan, records: torch.Tensor, sums: torch.Tensor,
                update: _native.SummedUpdate) -> PreparedStep:
        """`prefetch`, `gather`, an update from the sums (n, dim) of the gradients of each row with `publish`, and
        `write_back`, for steps that each have another number of rows; `plan` in device memory, as long as any of
        them."""
        where = self._complete(plan)
        from_sums = prepare_update(self.row_table, where.leave, where.target, records, sums, update)
        return PreparedStep(self._prefetch(plan, records), self._gather(plan, records),
                            [from_sums, *self._publish(plan)], self._write_back(plan))

    def publish(self, plan: Plan) -> None:
        """Let an engine know that all work before this is done, if it waits for that; `plan` in device memory."""
        self._all(self._publish(plan), plan)()

    def _all(self, kernels: Prepared, plan: Plan) -> Callable[[], None]:
        """Work for all rows of a plan."""
        def work():
            for kernel in kernels:
                kernel(len(plan.rows), self.device.stream)

        return work if kernels else no_op

    def _prefetch(self, plan: Plan, records: torch.Tensor) -> Prepared:
        return ()

    def _gather(self, plan: Plan, records: torch.Tensor, part: str = "all", crossing: str = "bus") -> Prepared:
        """part, crossing: see prepare_gather."""
        plan = self._complete(plan)
        return [prepare_gather(self.row_table, plan.rows, plan.source, records, crossing, part)]

    def _publish(self, plan: Plan) -> Prepared:
        return ()

    def _write_back(self, plan: Plan) -> Prepared:
        return ()

    def receive(self, plan: Plan, records: torch.Tensor, used, learning_rate: float) -> None:
        """Behind all other work of the step: update what ranks have sent each other the gradients of. As `update`."""

    def _complete(self, plan: Plan) -> Plan:
        """With where each row is read from and how it leaves, if no engine has planned that."""
        return plan

    def end(self) -> None:
        """The step has been enqueued from its prefetch to its write-back."""
        raise NotImplementedError

    def drain(self) -> None:
        """Between two steps: wait until the host table holds every update."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the rows hold in addition to the host table."""

    @property
    def sends_gradients(self) -> bool:
        """Whether there are several ranks, which have to know how often each row occurs."""
        return False

    def announce_entities(self, batch) -> None:
        """Announce the entity rows of a batch to come."""
        self._announce(batch, "entities",
                       lambda batch: [np.diff(batch.positive_offset) > 0, np.diff(batch.negative_offset)])

    def announce_relations(self, batch) -> None:
        """Announce its relation rows."""
        self._announce(batch, "relations", lambda batch: [np.diff(batch.relation_offset)])

    def announce_projections(self, batch) -> None:
        """Announce its relations' projections."""
        self._announce(batch, "relations", lambda batch: [np.diff(batch.relation_offset)] * 2)

    def _announce(self, batch, rows: str, gradients: Callable[..., Sequence[np.ndarray]]) -> None:
        """rows: the batch's attribute that has them. gradients(batch): how many each row has, entry by entry."""
        if self.sends_gradients:
            self.announce(batch.step, getattr(batch, rows), np.concatenate(gradients(batch)).astype(np.int32))
        else:
            self.announce(batch.step, getattr(batch, rows))

    def _download(self, slots: np.ndarray, rows: np.ndarray) -> None:
        """Copy records from slots of the cache to rows of the host table; the device is idle."""
        records = self.table.records
        for first in range(0, len(slots), self._rows_per_copy):
            part = slice(first, first + self._rows_per_copy)
            index = torch.from_numpy(slots[part].astype(np.int64)).to(self.device.torch_device)
            floats = self.table.record_floats
            records[rows[part], :floats] = self.cache[index, :floats].cpu().numpy()
