"""Rows of one rank behind a device's cache, whose new values the device stores into host rows itself.

A step leaves its values in a write-back buffer on the device (csrc/engine/write_back_buffer.h). They are written to the
host while the next step computes and the one after that is prefetched. Both steps read the values that they need from
the buffer, as their plans say; all other host rows are up to date by then.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

import numpy as np

from ... import _native
from ..device.device import Device, Event, no_op
from ..device.plan_kernels import PUBLISHED_BEFORE_SYNC
from .device_rows import STEPS_ON_DEVICE
from .flush_config import FlushConfig
from .flushed_rows import FlushedRows
from .half_embeddings import Rounding
from .in_step_sync import InStepSync
from .plans_ahead import PlansAhead
from .row_transfer import OwnerTransfer, RowTransfer


class CachedRows(FlushedRows):
    """As FlushedRows, but there is no flush thread, and no gate stands before reads that follow stores.

    Attributes:
        transfer: how rows cross the bus.
    """

    _slots_behind_cache = STEPS_ON_DEVICE
    transfer: RowTransfer

    def __init__(self, table: _native.HostTable, client: _native.EngineClient, config: FlushConfig, device: Device,
                 rounding: Optional[Rounding] = None, exchange: Optional[_native.Exchange] = None):
        """exchange: of data-parallel ranks, which synchronise in each step (in_step_sync.py)."""
        self._config = config
        super().__init__(table, client, config, device, rounding)
        self._sync = InStepSync(exchange, client, self) if config.in_step_sync else None
        self.publishes_before_sync = config.in_step_sync
        self._read_by_kernels = None if config.in_step_sync else "cache"  # none is read before the collective
        self._publications: Dict[int, Callable[[], None]] = {}  # before the synchronisation, by where the plan is
        self._written_back_before: Optional[Event] = None  # behind the step before that
        self._plans = PlansAhead(client, self._cell, device)
        self._turn = device.zeros(1, dtype=np.int32)  # of the write-back kernel

    def _make_cache(self, slots):
        if self._config.owner_transfer:
            self.transfer = OwnerTransfer(self, slots, self._config.max_rows_per_step)
        else:  # other ranks wait for the write-back of synchronised steps: it has as many blocks as always
            self.transfer = RowTransfer(self, slots, "bus" if self._config.in_step_sync else None)
        return self.transfer.cache

    def _memory(self):
        return *self.transfer.memory, None if self._config.owner_transfer else self._staging

    def make_records(self, count):
        return self.transfer.make_records(count)

    def _prefetch(self, plan, records):
        return self.transfer.prefetch(plan, records)

    def whole_prefetch(self, block, memory, plan, records):
        run = self.transfer.whole_prefetch(block, memory, plan, records)

        def prefetch(packed: int) -> Callable[[], None]:
            plans = self._plans.addresses(self._step)
            return lambda: run(packed, *plans, self.device.stream)

        return prefetch

    def gather(self, plan, records):
        if self._sync:
            self._sync.wait()
        super().gather(plan, records)

    def _gather(self, plan, records, part="cache"):
        gather = super()._gather(plan, records, part)
        if plan.evicted is None:
            return gather
        # After the gather, which still reads the old values of the write-back buffer.
        return [*gather, _native.prepare_stage_evicted(self.row_table, plan.target, plan.evicted,
                                                       plan.first_buffer_slot)]

    def update(self, plan, records, entries, used=None):
        if self._sync:
            self._sync.send(plan, entries, used)
        return super().update(plan, records, entries, used)

    def _publish(self, plan):
        return ()  # the write-back does it

    def receive(self, plan, records, used, learning_rate):
        if self._sync:
            self._sync.receive(plan, records, used, learning_rate)

    def publish_before_sync(self, plan):
        self.device.submit(self._publications[plan.rows.data_ptr()], after=self._written_back)

    def write_back(self, plan):
        if self._sync:
            kernel = self.transfer.write_back_kernel(plan, PUBLISHED_BEFORE_SYNC, "awaited")
            self._publications[plan.rows.data_ptr()] = self._all([kernel], plan)
        return super().write_back(plan)

    def _write_back(self, plan):
        return self.transfer.write_back(plan, self._published_counter, self._turn)

    def wait(self):
        """For nothing: no gate stands before reads that follow stores."""

    def leave(self, written_back):
        self._written_back_before = self._written_back
        super().leave(written_back)

    def end(self):
        super().end()
        if self._sync:
            self._sync.check()

    def drain(self):
        if self._sync:
            self.device.synchronize()
            self._sync.check()  # or the table would get what no step has computed
        super().drain()

    def _serve(self, write_backs):
        """The last step's write-back need not have ended: its rows have not been cached since."""
        if self._sync:  # after the rows that the step before publishes; such rows are read late
            return super()._serve(write_backs)
        super()._serve(write_backs, after=self._written_back_before)
        self.device.prefetch(no_op, after=self.device.record())  # the rows are read behind it

    def _writing_back(self):
        step = self._step
        return lambda listed: self.transfer.write_back_evicted(listed, step)

    def close(self):
        super().close()
        self.transfer.close()
