"""A table of several processes whose GPUs reach each other: row r belongs to rank r % ranks, which works on it for all.

Each rank tells the owners which of their rows its lookups use (csrc/comm/owner_lists.h). An owner looks up what all
ranks ask for as one lookup of one process, behind a cache of its own. It stores the values into the memory of the ranks
that asked, and reads the sums of their gradients there (csrc/comm/row_exchange.h). An owner has the gradients in the
order of ranks, and adds those of a row up in it.
"""
from __future__ import annotations

import mmap
from collections import deque
from dataclasses import replace
from typing import Any, Callable, Deque, List, Optional

import numpy as np
import torch
import torch.distributed as dist

from .. import _native
from ..store.device.device import Watch
from ..store.device.peer_buffer import peer_buffer
from ..store.device.shared_segment import SharedSegment
from ..store.device_executor import LookupPlace, PinnedMemory, submit_with_callers, summing_up, take_packed
from ..store.executor import Executor
from ..store.request import Request
from ..store.rows.device_rows import STEPS_ON_DEVICE
from ..store.rows.flush_config import StoreAddress
from .config import CacheConfig
from .table import SharedTable, Table

STEPS_AHEAD = 8  # that a rank may be ahead of another, beyond its lookahead
# Steps behind which what a step copies to the device is there: the part waits for the prefetch of the step
# STEPS_ON_DEVICE before, which has waited for a write-back as much earlier, and a step begins before its part does.
STEPS_TO_COPY = 2 * STEPS_ON_DEVICE + 1


def reach_each_other(device: object, group: Any) -> bool:
    """Whether all processes of a group have GPUs of their own that read each other's memory. Collective.

    device: of this process, as a module takes it.
    """
    is_cuda = isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda"
    own = torch.empty(0, device=device).device.index if is_cuda else None
    each: List[Optional[int]] = [None] * dist.get_world_size(group)
    dist.all_gather_object(each, own, group)
    if None in each or len(each) > _native.MOST_DEVICE_RANKS:
        return False
    reaches = all(_native.reach_each_other(own, other) for other in each if other != own)
    answers = [False] * len(each)
    dist.all_gather_object(answers, reaches and len(set(each)) == len(each), group)
    return all(answers)


class OwnerTable(Table):
    """One rank's side of such a table."""

    def __init__(self, rows: int, dim: int, optimizer, cache: CacheConfig, device: object,
                 shared: Optional[SharedTable] = None):
        """shared: the table of rank 0, in the other ranks. The rest is as for Table."""
        self.owners = cache.ranks
        if cache.ranks > _native.MOST_DEVICE_RANKS:
            raise ValueError(f"at most {_native.MOST_DEVICE_RANKS} ranks own rows, not {cache.ranks}; use flush='p2f'")
        super().__init__(rows, dim, optimizer, cache, device, shared)

    def _make_executor(self):
        config, rank = self._config, 0 if self._shared is None else self._shared.rank
        self._max_rows = min(self.rows.rows, config.max_rows)
        hot = None if config.hot_ids is None else np.asarray(config.hot_ids, np.int64)
        # The part makes room as it is needed: for all ranks' rows of an owner there is no bound that is near them.
        own = replace(config, ranks=1, max_rows=None, hot_ids=None if hot is None else hot[hot % self.owners == rank])
        part = Table(self.rows.rows, self.rows.dim, _TheRule(self.rule), own, self._device, table=self.rows,
                     device_at_work=self._device_to_work())
        segment = None if self._shared is None else self._shared.address.segment
        return OwnerExecutor(self.rows, self.rule, part, rank, self.owners, segment, config.lookahead, self._max_rows,
                             self._device_to_work())


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
    """A lookup whose owners know it. owned: the rows of all ranks that this one owns, and whose they are.

    Attributes:
        placed: the lookup on the device, where Device.copy(*copy) brings it.
        ticket: of the owned rows, once they were read.
    """

    def __init__(self, request: Request, owned: Request, whose: _native.OwnedRows):
        self.lookup, self.owned, self.whose = request.lookup, owned, whose
        self.placed = self.copy = self.ticket = None


class OwnerExecutor(Executor):
    """Carries out the lookups of one rank.

    Attributes:
        address: for the other ranks.
    """

    def __init__(self, table, update, part: Table, rank: int, ranks: int, segment: Optional[str], window: int,
                 max_rows: int, device):
        """part: whose lookups are of the rows that this rank owns. segment: of rank 0, None there."""
        super().__init__(table, update)
        self.window, self.torch_device = window, device.torch_device
        self._part, self._rank, self._device = part, rank, device
        steps = window + STEPS_AHEAD
        if segment is None:
            self._segment = SharedSegment(_native.OwnerLists.bytes_needed(ranks, steps, max_rows))
            memory, segment = self._segment.array, self._segment.path
        else:
            memory = SharedSegment.attach(segment)
        self._lists = _native.OwnerLists(memory, rank, ranks, steps, max_rows)
        if self.torch_device.type == "cuda":  # whose kernels look there whether somebody has failed
            self._registered = _native.HostRegistration(memory[: mmap.PAGESIZE])
        self.address = StoreAddress(table.path, table.rows, table.dim, table.state_floats, segment, True, None)
        boxes = max_rows, table.dim
        self._buffer = peer_buffer(_native.RowExchange.buffer_bytes(*boxes), device, "rows that GPUs send each other")
        self._lists.introduce(self._buffer.handle)
        inbox, outbox = (self._buffer.memory[first:][: 4 * max_rows * table.dim].view(torch.float32).view(boxes)
                         for first in _native.RowExchange.boxes(*boxes))
        self._place, self._outbox = LookupPlace(device, inbox, outbox), outbox
        self._packed: Deque[np.ndarray] = deque(maxlen=STEPS_TO_COPY)  # of steps whose copies may not be there
        self._exchange: Optional[_native.RowExchange] = None
        self._turn = device.zeros(1, dtype=np.int32)
        self._packing = PinnedMemory(device)
        self._posted: Deque[Request] = deque()  # which some ranks may not have posted yet
        self._known: Deque[_Step] = deque()
        self._running: Optional[_Step] = None
        self._watch = Watch(self._check, lambda sentence: self._lists.fail(f"Rank {rank}: {sentence}"))

    def _check(self) -> None:
        self._device.check()
        self._lists.look()

    def _connect(self) -> None:
        """Waits for all ranks. Raises RuntimeError, in all of them, if this one does not reach another's memory."""
        try:
            with self._device.current():
                buffers = [self._buffer.memory.data_ptr() if number == self._rank else self._buffer.open(handle)
                           for number, handle in enumerate(self._lists.handles())]
        except _native.DeviceError as error:
            reason = str(error).partition(";")[0]  # what follows names a flag of the command line
            self._lists.fail(f"Rank {self._rank} does not reach the memory of the other GPUs ({reason}); "
                             "use flush='p2f'")
            self._lists.look()
        self._exchange = _native.RowExchange(self._lists, self._rank, buffers, *self._outbox.shape, self._turn)

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
        rows, whose = self._lists.take()
        owned = Request(rows, self.table.rows)
        self._part.prefetch(owned)
        self._known.append(_Step(self._posted.popleft(), owned, whose))

    def begin(self, request):
        self._lists.begin()
        if self._exchange is None:
            self._connect()
        if not self._known:
            self._take()
        self._tell_part()
        step = self._running = self._known.popleft()
        place, lookup = self._place, step.lookup
        place.packed = take_packed(request, self)
        self._packed.append(place.packed)
        step.placed, step.copy = place.place(lookup), place.copy_from(lookup.packed[1], lookup)

    def gather(self):
        step, device = self._running, self._device
        owned, step.ticket = self._part.look_up(step.owned)
        values = torch.empty(len(step.lookup), self.table.dim, dtype=torch.float32, device=self.torch_device)

        def work():
            device.copy(*step.copy)
            self._exchange.send_values(owned.data_ptr(), step.whose, device.stream)
            step.placed.read(values.data_ptr(), device.stream)

        submit_with_callers(device, work)
        return values

    def update(self, gradients, numbers=None):
        self._end(summing_up(self._device, self._running.placed, self.table.dim, gradients, numbers))

    def skip(self):
        step = self._running
        if step.ticket is None:  # discarded before it was read
            self.gather()
        self._end(self._outbox[: step.lookup.distinct].zero_)

    def _end(self, sum_up: Callable[[], object]) -> None:
        """sum_up: in submitted work, sets the sums of the running step."""
        step, device = self._running, self._device
        sums = torch.empty(len(step.owned.ids), self.table.dim, dtype=torch.float32, device=self.torch_device)

        def work():
            sum_up()
            self._exchange.fetch_sums(sums.data_ptr(), step.whose, device.stream)

        submit_with_callers(device, work)
        self._part.update(step.ticket, sums)
        self._running = None

    def replace(self, positions, records, wanted):
        raise NotImplementedError("rows by key are for one process")

    def drain(self):
        self._part.drain()
        self._lists.meet()

    def statistics(self):
        return self._part.statistics()

    def close(self):
        self._watch.close()
        self._part.stop()
        self._device.synchronize()
        self._exchange = self._lists = None  # so that other ranks hear of it
        self._buffer.close()
