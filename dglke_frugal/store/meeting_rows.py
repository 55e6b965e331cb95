"""Rows of a host table that several ranks' devices train without flush threads: they meet in each step.

What a rank has alone takes the way of one GPU alone (DirectWriteRows): it arrives beside the steps before, and departs
from slots beside the next ones. Gradients of rows that several ranks change are applied inside the step, behind a
meeting (csrc/replicas/shared_rows.h). What other ranks have changed lately is read behind another one, with which a step
begins. So no gate waits, and the host runs ahead of its device.

A device comes to the first meeting of step s behind its write-backs and what its step s - 1 has handed over, which
comes behind its departure of s - 2. Handed over (HANDED_OVER) is what another rank reads in s, instead of being left to
the departure of s - 1, which may still be under way. So behind that meeting each row that a rank reads and has not in a
slot of its own is at home, and nothing older is on its way there, which could come behind what is stored in s.

An arrival comes behind the departure of the step STEPS_ON_DEVICE before, and so behind the first meeting of that one:
what changed kLateSteps (csrc/engine/plan.h) before the arrival's own step, or earlier, has departed. Of what changed later
the plan says that it is read behind the meeting, or in a slot of the rank's own.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

from .. import _native
from .device import Device
from .engine_rows import DirectWriteRows, EngineRows
from .flush_config import FlushConfig
from .plan_kernels import HANDED_OVER

ENTRIES = 2  # of a step


class MeetingRows(DirectWriteRows):
    """exchange: the _native.Exchange of the ranks, whose first region has exchanged_floats of room."""

    hands_over = True
    _read_by_kernels = None  # none is read before the meeting

    def __init__(self, table: _native.HostTable, port: _native.RankPort, config: FlushConfig, device: Device,
                 exchange: _native.Exchange):
        super().__init__(table, port, config, device)
        self._shared = _native.SharedTable(exchange, self.most_rows, ENTRIES,
                                           [port.staging_of(rank) for rank in range(port.ranks)])
        self._hand_overs: Dict[int, Callable[[], None]] = {}  # by where the plan is

    @staticmethod
    def exchanged_floats(rows: int) -> int:
        """What a rank puts out for a step of so many rows at most."""
        return _native.SharedTable.floats(rows, ENTRIES)

    def departure(self, plan):
        home = self._return(plan, HANDED_OVER, "awaited")
        self._hand_overs[plan.rows.data_ptr()] = self._all([home], plan)
        return super().departure(plan)

    def hand_over(self, plan):
        self.device.submit(self._hand_overs[plan.rows.data_ptr()], after=self._departed)

    def gather(self, plan, records):
        self._meet()
        super().gather(plan, records)

    def _serve(self, write_backs):
        EngineRows._serve(self, write_backs)  # behind what the step before has handed over; such rows are read late

    def update(self, plan, records, entries, used=None) -> Optional[tuple]:
        offsets = [offset for _, offset, *_ in entries]
        self._shared.put(self._planned(plan, used), offsets, self.device.stream)
        return super().update(plan, records, entries, used)

    def receive(self, plan, records, used, learning_rate):
        self._meet()
        self._shared.apply(self._planned(plan, used), self.row_table, records, learning_rate, self.device.stream)

    def end(self):
        super().end()
        self._check()

    def drain(self):
        self.device.synchronize()
        self._check()
        super().drain()

    def _crossing(self):
        return "bus"  # by as many blocks as ever: others wait for what departs

    def _meet(self) -> None:
        self._shared.meet(self._is_cuda, self.device.stream)

    @staticmethod
    def _planned(plan, used):
        return plan.rows, plan.leave, plan.target, used

    def _check(self) -> None:
        sentence = self._shared.sentence
        if sentence:
            raise _native.EngineError(sentence)
