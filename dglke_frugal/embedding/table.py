"""One table and the order of its lookups: the prefetched ones, the running one, and gradients that come late."""
from __future__ import annotations

import atexit
import contextlib
import copy
import copyreg
import ctypes
import os
import threading
import weakref
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Callable, ContextManager, Deque, Dict, NamedTuple, Optional

import numpy as np
import torch

from .. import _native, available_memory
from ..errors import InputError
from ..optim import RowOptimizer
from ..options import AUTO
from ..store.executor import EngineExecutor, Executor, TableExecutor
from ..store.flushing import EngineTable, InPlaceTable, RemoteTable, RankRows
from ..store.request import Request
from ..store.rows.flush_config import FlushConfig, StoreAddress
from .config import CacheConfig
from .files import blocks
from .loss_scaling import scaler_of_backward
from .table_lock import TableLock


GROWTH = 1.5  # of the engine's room for a lookup's rows, so that it is not made anew for each longer lookup


OTHER_IDS = ("these are not the ids that were prefetched for the next lookup; look them up in the order of prefetch, "
             "or call discard_prefetched() first; close() forgets what was prefetched, so call it behind the loop that "
             "prefetches")
BESIDES_BYTES = 64 << 20  # for start values on their way into the table, and for lookups
FORKED = ("this process was forked while updates of the table were on their way to host memory, in threads that it "
          "does not have; call close() on the module before forking, or start the process by the method 'spawn'")
CLOSED = ("the ranks of this table have closed it, and it can only be read since; close it after the last step, or "
          "make another one and load what save wrote")
FORKED_FROM_DEVICE = ("this process was forked from one whose GPU reads the table in host memory, and does not have "
                      "that memory; start the process by the method 'spawn'")


_tables: "weakref.WeakSet[Table]" = weakref.WeakSet()


@atexit.register
def _stop() -> None:
    """Threads of tables that nobody has closed would outlive the interpreter."""
    for table in list(_tables):
        with contextlib.suppress(Exception):  # of a device that failed, say
            table.stop()


def _leave_behind() -> None:
    """A forked process has the memory of tables, and none of the threads that work on it."""
    for table in _tables:
        table.leave_behind()
    if _tables:  # lookups have started torch's threads: its own loops would wait for them
        torch.set_num_threads(1)


os.register_at_fork(after_in_child=_leave_behind)


class _Lost:
    """In place of the lock of a table that a forked process cannot use."""

    def __init__(self, sentence: str):
        self._sentence = sentence

    def __enter__(self):
        raise RuntimeError(self._sentence)

    def __exit__(self, *error):
        pass


class Ticket:
    """A lookup that has been read, until its gradient comes.

    Attributes:
        request: its ids.
        scaler: the GradScaler of the backward that it was read in, where a part of a model is computed again.
        settings: the optimizer's at that moment, where several ranks train.
    """

    def __init__(self, request: Request, settings: Optional[Dict] = None):
        self.request, self.scaler, self.settings = request, scaler_of_backward(), settings


class SharedTable(NamedTuple):
    """A table of another process of this machine. address: StoreAddress, which can be sent there. rank: from 1 on."""

    address: StoreAddress
    rank: int


class Table:
    """Reads and updates rows in exactly the order in which lookups and gradients come.

    A lookup whose gradient is the next thing to happen is one step: its rows are read and updated while nothing else
    is. Anything in between, another lookup or a read of other rows, ends the step without an update; the gradient is
    then an update of its own when it comes. Either way it changes what the rows are at that moment.

    One thread at a time may use it, inside of `with table.alone`.

    Attributes:
        alone: a lock; raises RuntimeError in a forked process that lacks updates.
        rows: the host table, up to date after `drain`.
        optimizer: which may be that of other tables, too.
        rule: its updates of this table.
        owners: ranks that divide the rows between them (owners.py).
    """

    owners = 1

    def __init__(self, rows: int, dim: int, optimizer: RowOptimizer, cache: Optional[CacheConfig], device: object,
                 shared: Optional[SharedTable] = None, extra_bytes: int = 0, table: Optional[_native.HostTable] = None,
                 device_at_work: object = None):
        """cache: None for the device's default. device: a torch.device, or for tests a store.device.Device. shared:
        another process's table. extra_bytes: what the caller needs for each row. table: one that is there
        already. device_at_work: the store's device, which somebody else has made.

        Raises ValueError for hot ids that are no rows, InputError if there is no memory, RuntimeError if that process
        has ended.
        """
        if cache is not None:
            cache.check_hot_ids(rows)
        self.optimizer, self._cache, self._shared, self._extra_bytes = optimizer, cache, shared, extra_bytes
        self.rule = optimizer.native()
        self._work_on(device)
        if shared is not None:
            at = shared.address
            if at.on_device == (device == torch.device("cpu")):
                raise ValueError("all ranks of a table work on GPUs or all on the CPU; give each the same kind of "
                                 "device")
            self.rows = _native.HostTable(at.table, at.rows, at.dim, at.state)
        elif table is not None:
            self.rows, self._device_at_work = table, device_at_work
        else:
            self._check_memory(rows, dim)
            try:
                self.rows = _native.HostTable(rows, dim, self._config.ranks > 1, self.rule.state_floats(dim),
                                              managed=self._is_updated_by_one_gpu() and _native.has_managed_memory())
            except RuntimeError as error:
                raise InputError(f"{error}; use fewer rows or a machine with more memory") from error
        self.alone: ContextManager = self._make_lock()
        self._executor: Optional[Executor] = None
        self._pending: Deque[Request] = deque()  # of which the first self._announced are announced
        self._announced = 0
        self._open: Optional[Ticket] = None
        self._closed = False  # by several ranks, which could not agree on another engine
        _tables.add(self)
        if shared is not None:
            self._restart()

    def _check_memory(self, rows: int, dim: int) -> None:
        of_row = _native.row_bytes(dim, self.rule.state_floats(dim))
        cached = 0 if self._config.flush == "none" or self._device != torch.device("cpu") else self._config.cache_ratio
        needed, free = rows * (of_row + self._extra_bytes), available_memory.free_host_bytes()
        needed += int(rows * cached) * of_row + BESIDES_BYTES
        if free is not None and needed > free:
            numbers = dim + self.rule.state_floats(dim)
            raise InputError(f"a table of {rows:,} rows of {numbers:,} numbers (embedding and optimizer state) needs "
                             f"{needed / 1e9:,.2f} GB of host memory, but this process can have {free / 1e9:,.2f} GB; "
                             "use fewer rows, a smaller embedding_dim or a machine with more memory")

    def _work_on(self, device: object) -> None:
        on_cpu = device == torch.device("cpu")
        self._device, self._device_at_work, self._max_rows = device, None, 0
        self._config = self._cache or CacheConfig(flush="none" if on_cpu else AUTO)
        if on_cpu and self._config.flush == "direct":
            raise ValueError("flush='direct' is for a table on a GPU, which stores updates itself; use 'p2f' on the "
                             "CPU")
        self._in_place = self._config.flush == "none" and on_cpu

    def _is_updated_by_one_gpu(self) -> bool:
        """Whether one GPU reads and writes the rows in host memory, and no flush thread or other process does."""
        config = self._config
        return (isinstance(self._device, torch.device) and self._device.type == "cuda" and config.ranks == 1
                and config.flush in (AUTO, "direct"))

    def _make_lock(self) -> ContextManager:
        """Ctrl-C waits for one process's work; several ranks wait for each other, for good if one has ended."""
        return TableLock() if self._config.ranks == 1 else threading.RLock()

    def __deepcopy__(self, memo: Dict) -> "Table":
        """A table of its own, without the lookups to come. Raises InputError if there is no memory."""
        with self.alone:
            rows, dim, optimizer, *others = self._settings()
            other = memo[id(self)] = Table(rows, dim, copy.deepcopy(optimizer, memo), *others)
            other._fill(self.rows.records, self.rule.updates)
        return other

    def __getstate__(self) -> Dict:
        """Its settings, and all rows and their state in a tensor, which torch.save writes without a copy."""
        with self.alone:
            return {"settings": self._settings(), "records": torch.from_numpy(self.rows.records),
                    "updates": self.rule.updates}

    def __setstate__(self, state: Dict) -> None:
        self.__init__(*state["settings"])
        self._fill(np.asarray(state["records"]), state["updates"])

    def _settings(self) -> tuple:
        """What `__init__` takes for a table like this one, which is drained first."""
        if self._config.ranks > 1:
            raise RuntimeError("a table that several ranks train cannot be copied or pickled; use state_dict() or save")
        self.drain()
        return self.rows.rows, self.rows.dim, self.optimizer, self._cache, self._device, None, self._extra_bytes

    def _fill(self, records: np.ndarray, updates: int) -> None:
        self.rule.updates = updates
        for block in blocks(records):
            self.rows.records[block] = records[block]

    def move(self, device: torch.device) -> None:
        """Work on another device from now on; the host table stays where it is."""
        if self._config.ranks > 1:
            raise RuntimeError("a table that several ranks train stays where it was made; give each its device then")
        self.drain()
        self.stop()
        self._work_on(device)

    def leave_behind(self) -> None:
        """In a forked process: let go of all that another process's threads work on, without waiting for them."""
        if not isinstance(self.alone, _Lost):
            self.alone = self._make_lock()  # nobody holds it here
        kept = [request.leave_behind() for request in self._pending]
        if self._executor is not None and not isinstance(self._executor, TableExecutor):
            if self._config.ranks > 1 or self._executor.dirty:
                self.alone = _Lost(FORKED)
            kept += [self._executor, self._device_at_work]
            self._executor = self._device_at_work = self._open = None
            self._announced = self._max_rows = 0
        if self.rows.is_managed:
            self.alone = _Lost(FORKED_FROM_DEVICE)
            kept.append(self.rows)
        for each in kept:  # their destructors would wait
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    @property
    def address(self) -> StoreAddress:
        """Where other ranks find the table and its engine, which is made now if there is none."""
        if self._config.ranks == 1:
            raise ValueError("this table is for one process; make it with CacheConfig(ranks=...) to share it")
        if self._executor is None:
            self._restart()
        return self._executor.address

    def check_alone(self, what: str) -> None:
        """Raise RuntimeError where other ranks use the table already."""
        if self._config.ranks > 1 and self._executor is not None:
            raise RuntimeError(f"{what} is not possible once several ranks train; do it before they attach")

    @property
    def pending(self) -> int:
        """Lookups that were prefetched and not asked for yet."""
        return len(self._pending)

    @property
    def next(self) -> Optional[Request]:
        """The first prefetched lookup; None if there is none."""
        return self._pending[0] if self._pending else None

    @property
    def torch_device(self) -> torch.device:
        """Where embeddings are given out."""
        return self._device if isinstance(self._device, torch.device) else self._device.torch_device

    def ids_memory(self, count: int) -> np.ndarray:
        """(count,) int64 for the ids of a request."""
        return np.empty(count, np.int64) if self._executor is None else self._executor.ids_memory(count)

    def prefetch(self, request: Request) -> None:
        """The lookup after those prefetched already will be this one."""
        if not self._in_place:  # nothing is planned there, and a thread that sorts would be in the way of torch's
            sort_ahead = self._executor.sort_ahead if self._executor else Request.sort_ahead
            sort_ahead(request)
        self._pending.append(request)
        self._announce_ahead()

    def discard_prefetched(self) -> None:
        """Forget the lookups to come: of several ranks all forget as many, in which no row changes."""
        self._close_step()
        # The executor waits for announced lookups: they run, and nothing changes. Of several ranks each runs all,
        # since how many of them are announced yet is a matter of time.
        while self._announced or (self._config.ranks > 1 and self._pending):
            if not self._announced:
                self._announce(self._pending[0])
            self._announced -= 1
            self._executor.begin(self._pending.popleft())
            self._forget()
        self._pending.clear()

    def look_up(self, request: Request, prepare: Optional[Callable[[Executor], None]] = None):
        """(embeddings (n, dim), Ticket for `update`) of a request, or the one that was prefetched with the same ids.

        prepare: called with the executor when the rows may be read. Raises RuntimeError if other ids were prefetched,
        IndexError for an id outside the table.
        """
        if self._pending:
            head = self._pending[0]
            if not self._is_next(request):
                raise RuntimeError(OTHER_IDS)
            request = head
            request.sorted  # an id outside the table is reported before anything changes
            if not self._announced:
                self._announce(head)
            self._pending.popleft()
            self._announced -= 1
            self._close_step()
        else:
            if self._executor is not None and self._executor.sorts_on_device(len(request.ids)):
                self._executor.sort_ahead(request)
            request.sorted
            self._close_step()
            self._announce(request)
            self._announced -= 1
        self._executor.begin(request)
        self._open = Ticket(request, dict(self.optimizer.param_groups[0]) if self._config.ranks > 1 else None)
        if prepare is not None:
            prepare(self._executor)
        values = self._executor.gather()
        self._announce_ahead()
        return values, self._open

    def is_open(self, ticket: Ticket) -> bool:
        """Whether nothing else has happened since the lookup was read."""
        return ticket is self._open

    def update(self, ticket: Ticket, gradients: torch.Tensor, numbers: Optional[np.ndarray] = None) -> None:
        """Update with the gradient of a lookup: see Executor.update."""
        if ticket is self._open:
            self.optimizer.next_update(self.rule)  # refuses some settings, and the step is open still
            self._open = None
            self._executor.update(gradients, numbers)
            self._announce_ahead()
            return
        if self._config.ranks > 1:
            raise RuntimeError("with several ranks the gradient of a lookup must come before the next lookup or read "
                               "of its table")
        self._close_step()
        self.optimizer.next_update(self.rule)
        if self._announced and not isinstance(self._executor, TableExecutor):
            self.drain()
            on_host = TableExecutor(self.rows, self.rule)
            on_host.change(ticket.request, gradients.cpu(), numbers)
            self._restart()
        else:
            if not isinstance(self._executor, TableExecutor):
                self._grow(ticket.request)
            self._executor.change(ticket.request, gradients, numbers)

    def drop(self, ticket: Ticket) -> None:
        """The gradient of a lookup will not be used."""
        if ticket is self._open:
            self._close_step()

    def read(self, request: Request, prefetched: bool = True) -> torch.Tensor:
        """Embeddings (n, dim) of a request that will have no gradient.

        prefetched: whether it counts as looked up if the next lookup was prefetched with the same ids.
        """
        if prefetched and self._pending and self._is_next(request):
            values, _ = self.look_up(request)
            self._close_step()
            return values
        self.drain()
        executor = self._executor or TableExecutor(self.rows, self.rule)
        values = executor.read(request.ids).to(self.torch_device)
        self.meet()
        return values

    def meet(self) -> None:
        """Behind a read of the host table: none of several ranks goes on, and changes rows, before all have read."""
        if self._config.ranks > 1:
            self.drain()

    def drain(self) -> None:
        """Bring every update into the host table."""
        self._close_step()
        if self._executor is not None:
            self._executor.drain()

    def rewritten(self) -> None:
        """Call after `drain` and a change of the host table by somebody else: caches are filled anew."""
        if self._executor is not None and not isinstance(self._executor, TableExecutor):
            self._restart()

    def statistics(self) -> Optional[dict]:
        """Counters of cache and engine since it was last made, None where there is none."""
        return self._executor.statistics() if self._executor is not None else None

    def close(self) -> None:
        """Write every update to the host table and stop what runs in the background. The table may still be used by one
        process; several ranks close together, after which it can be read."""
        if self._executor is not None:
            if self._config.ranks > 1:
                self.drain()
                self.stop()
                self._closed = True
            else:
                self._restart(keep_pending=False)
        self._pending.clear()

    def stop(self) -> None:
        """Stop what runs in the background. Updates that are not in the host table are lost."""
        if self._executor is not None:
            executor, self._executor, self._announced = self._executor, None, 0
            executor.close()

    def _is_next(self, request: Request) -> bool:
        return request is self._pending[0] or np.array_equal(request.ids, self._pending[0].ids)

    def _announce_ahead(self) -> None:
        """Announce the prefetched lookups that are sorted and within the window."""
        while self._announced < len(self._pending):
            request = self._pending[self._announced]
            if not request.is_ready or self._executor is None:
                return  # the next lookup makes the executor, or announces the request itself
            # The running step has not ended: it counts as one of those beyond the last that has.
            if self._announced + (self._open is not None) > self._executor.window:
                return
            if self._open is not None and not self._has_room(request):
                return  # room is made between two steps
            self._announce(request)

    def _has_room(self, request: Request) -> bool:
        return self._executor is not None and request.sorted.distinct <= self._max_rows

    def _announce(self, request: Request) -> None:
        self._grow(request)
        self._executor.announce(request)
        self._announced += 1

    def _grow(self, request: Request) -> None:
        """Make an executor for lookups of this size, unless there is one."""
        if self._has_room(request):
            return
        if self._config.ranks > 1 and self._executor is not None:
            raise ValueError(f"a lookup has {request.sorted.distinct} distinct rows, but the ranks agreed on max_rows="
                             f"{self._max_rows}; make the table with more")
        self._close_step()
        rows, wanted = request.sorted.distinct, max(self._max_rows, self._config.max_rows or 1)
        if rows > wanted:
            wanted = GROWTH * rows
        self._max_rows = min(self.rows.rows, int(wanted))
        self._restart()

    def _close_step(self) -> None:
        ticket, self._open = self._open, None
        if ticket is not None:
            self._skip(ticket.settings)

    def _skip(self, settings: Optional[Dict] = None) -> None:
        """End the running step without a gradient; other ranks may have one, for which it is a gradient of zeros.
        settings: of the optimizer, which may have changed since the other ranks used them; None for those of now."""
        if self._config.ranks > 1:
            self.optimizer.next_update(self.rule, settings)
        self._executor.skip()

    def _forget(self) -> None:
        """End the running step as if it had not been: rows stay as they are, and the optimizer has made no step."""
        updates = self.rule.updates
        self.rule.skips = self._config.ranks > 1  # of one rank no step without a gradient changes rows
        try:
            self._skip()
        finally:
            self.rule.skips, self.rule.updates = False, updates

    def _restart(self, keep_pending: bool = True) -> None:
        """Write everything to the host table, and begin with an empty cache."""
        self.check_alone("this")
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._executor is not None:
            self.drain()
            self._executor.close()
            self._executor = None
        again, self._announced = self._announced, 0
        if keep_pending:
            self._executor = self._make_executor()
            for request in list(self._pending)[:again]:
                self._executor.announce(request)
                self._announced += 1

    def _make_executor(self) -> Executor:
        config, rows = self._config, self.rows
        device = None if self._device == torch.device("cpu") else self._device_to_work()
        if self._shared is not None:
            flushed = RemoteTable(rows, self._shared.address, self._shared.rank, device)
            self._max_rows = flushed.address.flushing.max_rows_per_step
            return self._executor_of(flushed, device)
        if self._in_place:
            return TableExecutor(rows, self.rule)
        if config.flush == "none":
            ranked = InPlaceTable(rows, device)
        else:
            ranked = EngineTable(rows, self.optimizer.lr, self._flush_config(), self._hot_rows(), device, self.rule)
        return self._executor_of(ranked, device)

    def _executor_of(self, ranked: RankRows, device) -> Executor:
        if device is None:
            return EngineExecutor(self.rows, self.rule, ranked)
        from ..store.device_executor import DeviceExecutor

        config = self._config
        return DeviceExecutor(self.rows, self.rule, ranked, config.lookahead, self._max_rows, config.ranks)

    def _flush_config(self) -> FlushConfig:
        config, rows, staging = self._config, self.rows, 0
        slots = min(rows.rows, int(rows.rows * config.cache_ratio))
        by_gpu = self._device != torch.device("cpu") and config.ranks == 1
        if config.ranks > 1:
            self._max_rows = min(rows.rows, config.max_rows)
            # Gradients and write-backs of a step; twice that, because what belongs together does not wrap around.
            records = 2 * (self._max_rows + min(slots, config.ranks * self._max_rows)) + 8 * self._max_rows
            staging = records * rows.stride * 4
            self.rule.keep(8 * (config.lookahead + 8))  # twice the steps that an engine can have under way
        return FlushConfig(
            max_rows_per_step=self._max_rows, entries=1, ranks=config.ranks,
            mode=("direct" if by_gpu else "p2f") if config.flush == AUTO else config.flush, lookahead=config.lookahead,
            flush_threads=config.flush_threads, slots=slots, policy=config.policy, staging_bytes=staging)

    def _hot_rows(self):
        """The hot rows of each rank, which are the same for all."""
        hot = self._config.hot_ids
        return () if hot is None else [np.asarray(hot, np.int64)] * self._config.ranks

    def _device_to_work(self):
        """The store's device, which outlives executors: host memory stays registered with it."""
        if self._device_at_work is None:
            if isinstance(self._device, torch.device):
                from ..store.device_executor import CallersDevice

                self._device_at_work = CallersDevice(self._device.index or 0)
            else:
                self._device_at_work = self._device
        return self._device_at_work


def _reduce_for_process(table: Table) -> tuple:
    """torch would put a tensor into shared memory and forget it before a spawned process has it; an array travels."""
    state = table.__getstate__()
    return copyreg.__newobj__, (Table,), {**state, "records": state["records"].numpy()}


ForkingPickler.register(Table, _reduce_for_process)
