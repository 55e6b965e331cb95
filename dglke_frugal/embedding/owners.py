"""A table of several processes whose GPUs reach each other: row r belongs to rank r % ranks, which works on it for all.

Each rank tells the owners which of their rows its lookups use (csrc/comm/owner_lists.h). An owner looks up what all
ranks ask for as one lookup of one process, behind a cache of its own. Rows go to the ranks, and the sums of their
gradients come back, by all_to_all. An owner has the gradients in the order of ranks, and adds those of a row up in it.
"""
from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, Deque, List, Optional

import numpy as np
import torch
import torch.distributed as dist

from .. import _native
from ..store.device_executor import PinnedMemory
from ..store.device.shared_segment import SharedSegment
from ..store.executor import Executor
from ..store.request import Request
from ..store.rows.flush_config import StoreAddress
from .config import CacheConfig
from .table import SharedTable, Table

STEPS_AHEAD = 8  # that a rank may be ahead of another, beyond its lookahead


class Owners:
    """The processes that own the rows.

    Attributes:
        rank, ranks: of this process, and how many there are.
    """

    def __init__(self, group: Any):
        """group: of torch.distributed, whose processes exchange tensors on their devices."""
        self._group, self._options = group, dist.AllToAllOptions()
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)

    @classmethod
    def of(cls, group: Optional[Any]) -> "Owners":
        """The processes of a group, which all make this call, in a group of their own: what a table exchanges may come
        between any two collectives of the layers."""
        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        return cls(dist.new_group(members, backend=dist.get_backend(group), use_local_synchronization=True))

    def exchange(self, out: torch.Tensor, given: torch.Tensor, out_counts: List[int], counts: List[int]) -> None:
        """given (n, dim): rows for each rank, one rank's behind the other's; out: the rows that come from each rank.
        As all_to_all_single, whose checks take longer than a launch."""
        self._group.alltoall_base(out, given, out_counts, counts, self._options).wait()


def reach_each_other(device: object, group: Any) -> bool:
    """Whether all processes of a group have GPUs that read each other's memory, and exchange tensors there. Collective.

    device: of this process, as a module takes it.
    """
    is_cuda = isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda"
    own = torch.empty(0, device=device).device.index if is_cuda else None
    each: List[Optional[int]] = [None] * dist.get_world_size(group)
    dist.all_gather_object(each, own, group)
    if None in each or "nccl" not in dist.get_backend(group):
        return False
    reaches = all(_native.reach_each_other(own, other) for other in each if other != own)
    answers = [False] * len(each)
    dist.all_gather_object(answers, reaches and len(set(each)) == len(each), group)
    return all(answers)


class OwnerTable(Table):
    """One rank's side of such a table."""

    def __init__(self, rows: int, dim: int, optimizer, cache: CacheConfig, device: object, owners: Owners,
                 shared: Optional[SharedTable] = None):
        """shared: the table of rank 0, in the other ranks. The rest is as for Table."""
        self._owners, self.owners = owners, owners.ranks
        super().__init__(rows, dim, optimizer, cache, device, shared)

    def _make_executor(self):
        config, owners = self._config, self._owners
        self._max_rows = min(self.rows.rows, config.max_rows)
        hot = None if config.hot_ids is None else np.asarray(config.hot_ids, np.int64)
        # The part makes room as it is needed: for all ranks' rows of an owner there is no bound that is near them.
        own = replace(config, ranks=1, max_rows=None,
                      hot_ids=None if hot is None else hot[hot % owners.ranks == owners.rank])
        part = Table(self.rows.rows, self.rows.dim, _TheRule(self.rule), own, self._device, table=self.rows,
                     device_at_work=self._device_to_work())
        segment = None if self._shared is None else self._shared.address.segment
        return OwnerExecutor(self.rows, self.rule, part, owners, segment, config.lookahead, self._max_rows,
                             self._device_to_work(), self.torch_device)


class _TheRule:
    """In place of the optimizer of an owner's part, by whose steps the whole table counts."""

    lr = 0.0  # of no engine that changes rows itself

    def __init__(self, rule: _native.SummedUpdate):
        self._rule = rule

    def native(self) -> _native.SummedUpdate:
        return self._rule

    def next_update(self, rule: _native.SummedUpdate) -> None:
        pass


class _Step:
    """A lookup whose owners know it. asked: how many rows each rank has among those of this owner. sent: how many of
    this rank's rows each owner has."""

    def __init__(self, request: Request, owned: Request, asked: List[int], sent: List[int]):
        self.lookup, self.packed = request.lookup, request.packed_in
        self.owned, self.asked, self.sent = owned, asked, sent
        self.ticket = self.arrays = None


class OwnerExecutor(Executor):
    """Carries out the lookups of one rank.

    Attributes:
        address: for the other ranks.
    """

    def __init__(self, table, update, part: Table, owners: Owners, segment: Optional[str], window: int, max_rows: int,
                 device, torch_device: torch.device):
        """part: whose lookups are of the rows that this rank owns. segment: of rank 0, None there."""
        super().__init__(table, update)
        self.window, self.torch_device = window, torch_device
        self._part, self._owners, self._device = part, owners, device
        steps = window + STEPS_AHEAD
        if segment is None:
            self._segment = SharedSegment(_native.OwnerLists.bytes_needed(owners.ranks, steps, max_rows))
            memory, segment = self._segment.array, self._segment.path
        else:
            memory = SharedSegment.attach(segment)
        self._lists = _native.OwnerLists(memory, owners.rank, owners.ranks, steps, max_rows)
        self.address = StoreAddress(table.path, table.rows, table.dim, table.state_floats, segment, True, None)
        self._packing = PinnedMemory(device)
        self._posted: Deque[Request] = deque()  # which some ranks may not have posted yet
        self._known: Deque[_Step] = deque()
        self._running: Optional[_Step] = None
        self._copied: Deque[tuple] = deque()  # (event, memory that is copied before it)

    def packing_memory(self, count):
        return self._packing.array_for(_native.Lookup.most_packed_bytes(count))

    def announce(self, request):
        self._lists.post(request.lookup.rows)
        self._posted.append(request)
        self._tell_part()

    def _tell_part(self) -> None:
        """Let the part know what is to come, as far as all ranks have posted it."""
        while self._posted and self._lists.ready:
            self._take()

    def _take(self) -> None:
        rows, asked, sent = self._lists.take()
        owned = Request(rows, self.table.rows)
        self._part.prefetch(owned)
        self._known.append(_Step(self._posted.popleft(), owned, asked, sent))

    def begin(self, request):
        self._lists.begin()
        if not self._known:
            self._take()
        self._tell_part()
        self._running = self._known.popleft()

    def gather(self):
        step = self._running
        values, step.ticket = self._part.look_up(step.owned)
        step.arrays = self._arrays(step)
        inverse, _, order = step.arrays
        distinct, all_have_rows = step.lookup.distinct, len(order) == len(inverse)
        rows = torch.empty(distinct, self.table.dim, dtype=torch.float32, device=self.torch_device)
        self._owners.exchange(rows, values, step.sent, step.asked)
        if not all_have_rows:
            rows = torch.cat([rows, rows.new_zeros(1, self.table.dim)])
        return rows.index_select(0, inverse)

    def _arrays(self, step: _Step) -> List[torch.Tensor]:
        """inverse, offset and order of its lookup, on the device."""
        _, *begins, end = step.lookup.packed
        memory = step.packed
        if memory is None:
            memory = self.packing_memory(len(step.lookup))
            step.lookup.pack(memory)
        block = torch.from_numpy(memory[begins[0] : end])
        if self.torch_device.type == "cuda":
            block = block.to(self.torch_device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self.torch_device))
            self._copied.append((event, memory))
            while self._copied and self._copied[0][0].query():
                self._copied.popleft()
        lengths = len(step.lookup), step.lookup.distinct + 1, len(step.lookup.order)
        return [block[begin - begins[0] :][: 4 * length].view(torch.int32) for begin, length in zip(begins, lengths)]

    def update(self, gradients, numbers=None):
        step = self._running
        _, offset, in_order = step.arrays
        if numbers is not None:
            in_order = torch.from_numpy(numbers).to(self.torch_device)[in_order]
        sums = torch.empty(step.lookup.distinct, self.table.dim, dtype=torch.float32, device=self.torch_device)
        with self._device.current():
            _native.segment_sums(gradients, offset, in_order, sums, self._stream())
        self._end(step, sums)

    def _end(self, step: _Step, sums: torch.Tensor) -> None:
        back = torch.empty(len(step.owned.ids), self.table.dim, dtype=torch.float32, device=self.torch_device)
        self._owners.exchange(back, sums, step.asked, step.sent)
        self._part.update(step.ticket, back)
        self._running = None

    def skip(self):
        step = self._running
        if step.ticket is None:  # discarded before it was read
            _, step.ticket = self._part.look_up(step.owned)
        self._end(step, torch.zeros(step.lookup.distinct, self.table.dim, device=self.torch_device))

    def replace(self, positions, records, wanted):
        raise NotImplementedError("rows by key are for one process")

    def drain(self):
        self._part.drain()
        self._lists.meet()

    def statistics(self):
        return self._part.statistics()

    def close(self):
        self._part.stop()
        self._lists = None  # so that other ranks hear of it

    def _stream(self) -> int:
        return torch.cuda.current_stream(self.torch_device).cuda_stream if self.torch_device.type == "cuda" else 0
