"""The exchange of blocks between two steps of all machines (csrc/machines/machine_steps.h)."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence

import numpy as np

from .transport import AWAITED, BACKGROUND, LANES, Traffic, Transport, block_header, check_header

URGENT, LATE, REST, AHEAD, WHOLE = "urgent", "late", "rest", "ahead", "whole"
APPLIED = (URGENT, REST, WHOLE)  # blocks after which tables have work to do, when all have come
LANE_OF = {URGENT: AWAITED, LATE: AWAITED, REST: BACKGROUND, AHEAD: BACKGROUND, WHOLE: BACKGROUND}
HEADER = 4  # floats' places in front of a block: its name, its boundary, its size, the sender's signal
_NUMBER = {name: number for number, name in enumerate(LANE_OF, start=1)}


class Boundaries:
    """The boundaries of one machine's steps, in order.

    Attributes:
        signal: the number of the signal that some machine has received; 0 for none. All machines read it at the same
            boundary.
        own_signal: the number that this machine has received, sent to the others at the next boundary.
    """

    def __init__(self, transport: Transport, entities, replicas: Sequence):
        """entities: _native.MachineRows. replicas: _native.MachineReplica."""
        self.transport = transport
        self._tables = [entities, *replicas]
        self.signal = self.own_signal = 0
        self.traffic = Traffic()
        self._posted = [0 for _ in LANES]  # numbers of blocks
        self._heard = 0  # the signal that has landed last
        self._background = _Background()
        self._next: Optional[int] = None  # the step before which the next boundary lies
        self._drained: Optional[int] = None  # the boundary at which results are where they belong already

    def begin(self, step: int) -> None:
        """Before a step, whose rows have been announced: all values that it reads are here. Raises MachineError."""
        if self._next is None:  # the first one: no step before it has results
            self._exchange(AHEAD, step - 1)
        self._finish_background()

    def begun(self, step: int) -> None:
        """Start the exchanges that this step does not wait for."""
        names = [AHEAD] if self._drained == step else [REST, AHEAD]
        self._background.start(lambda: [self._exchange(name, step) for name in names])
        self._next = step + 1

    def post_urgent(self) -> None:
        """Within a step: rows that are used in the next one have been written, and travel while all else is."""
        posted = self._post(URGENT, self._next)
        self._background.start(lambda: self._take_urgent(posted))

    def drain(self) -> None:
        """After a step of all machines: every result is where it belongs, and all replicas are whole. All machines
        drain at the same steps."""
        if self._next is None or self._drained == self._next:
            return
        self._finish_background()
        self._exchange(REST, self._next)
        self._exchange(WHOLE, self._next)
        self._drained = self._next

    def close(self) -> None:
        """End the other thread."""
        self._background.close()

    def _finish_background(self) -> None:
        began = time.perf_counter()
        self._background.finish()
        self.traffic.wait_seconds += time.perf_counter() - began
        self.signal = self.signal or self._heard

    def _take_urgent(self, posted: "_Posted") -> None:
        self._land(posted)
        if any(table.has_late(posted.boundary) for table in self._tables):
            self._exchange(LATE, posted.boundary)

    def _exchange(self, name: str, boundary: int) -> None:
        began = time.perf_counter()
        posted = self._post(name, boundary)
        self.traffic.work_seconds += time.perf_counter() - began
        self._land(posted)

    def _post(self, name: str, boundary: int) -> "_Posted":
        machine, everyone, lane = self.transport.machine, range(self.transport.machines), LANE_OF[name]
        sizes = [[[0 if sender == receiver else table.block_floats(name, boundary, sender, receiver)
                   for table in self._tables] for sender, receiver in pairs]
                 for pairs in ([(machine, to) for to in everyone], [(other, machine) for other in everyone])]
        posted = _Posted(lane, self._posted[lane], name, boundary, sizes[1], self.own_signal)
        sent, received = ([0 if other == machine else HEADER + sum(parts) for other, parts in enumerate(of_others)]
                          for of_others in sizes)
        block, at = np.empty(sum(sent), np.float32), 0
        for to, parts in enumerate(sizes[0]):
            if to == machine:
                continue
            block[at : at + HEADER].view(np.int32)[:] = [*posted.header(sum(parts)), posted.signal]
            at += HEADER
            for table, size in zip(self._tables, parts):
                if size:
                    table.pack(name, boundary, machine, to, block[at : at + size])
                at += size
        self.traffic.add(name, sum(sent))
        self.transport.post(lane, posted.number, block, sent, received)
        self._posted[lane] += 1
        return posted

    def _land(self, posted: "_Posted") -> None:
        name, boundary, machine, signals = posted.name, posted.boundary, self.transport.machine, [posted.signal]
        blocks = self.transport.wait(posted.lane, posted.number)
        began = time.perf_counter()
        for sender, (block, sizes) in enumerate(zip(blocks, posted.received)):
            if sender == machine:
                continue
            *known, signal = block[:HEADER].view(np.int32).tolist()
            check_header(known, posted.header(sum(sizes)), sender, boundary)
            signals.append(signal)
            at = HEADER
            for table, size in zip(self._tables, sizes):
                if size or name in APPLIED:
                    table.land(name, boundary, sender, machine, block[at : at + size])
                at += size
        if name in APPLIED:
            for table in self._tables:
                table.apply(name, boundary)
        if name == URGENT:
            self._heard = max(signals)
        self.traffic.work_seconds += time.perf_counter() - began


class _Background:
    """A thread that carries out work in its order while steps compute. `finish` raises the error of a work."""

    def __init__(self):
        self._asked: "queue.SimpleQueue[Optional[Callable]]" = queue.SimpleQueue()
        self._done: "queue.SimpleQueue[Optional[BaseException]]" = queue.SimpleQueue()
        self._started = 0
        # Not waited for at the end of the process: it may wait for a machine that is not there.
        self._thread = threading.Thread(target=self._run, name="machine-blocks", daemon=True)
        self._thread.start()

    def start(self, work: Callable) -> None:
        self._started += 1
        self._asked.put(work)

    def finish(self) -> None:
        """Wait until all work is done."""
        while self._started:
            self._started -= 1
            error = self._done.get()
            if error is not None:
                raise error

    def close(self) -> None:
        self._asked.put(None)

    def _run(self) -> None:
        while (work := self._asked.get()) is not None:
            try:
                work()
                self._done.put(None)
            except BaseException as error:  # which is the training's, as that of its own thread
                self._done.put(error)


@dataclass(frozen=True)
class _Posted:
    """A block of all machines that is under way. received: floats of each table, by sender. signal: of this machine."""

    lane: int
    number: int
    name: str
    boundary: int
    received: Sequence[Sequence[int]]
    signal: int

    def header(self, floats: int) -> List[int]:
        """Of a block of so many floats."""
        return block_header(_NUMBER[self.name], self.boundary + 1, floats)
