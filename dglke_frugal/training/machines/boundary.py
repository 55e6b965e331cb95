"""Between two steps of all machines, blocks are made, sent and taken in (csrc/machines/machine_steps.h)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import numpy as np

from .transport import MachineError, Traffic, Transport

URGENT, LATE, REST, AHEAD, WHOLE = "urgent", "late", "rest", "ahead", "whole"
SETTLED = (URGENT, REST, WHOLE)  # blocks after which tables have work to do, when all have come
HEADER = 4  # floats' places in front of a block: its name, its boundary, its size, the sender's signal
_NUMBER = {name: number for number, name in enumerate((URGENT, LATE, REST, AHEAD, WHOLE), start=1)}


class Boundaries:
    """The boundaries of one machine's steps, in order.

    Attributes:
        signal: that some machine has had at a boundary of all; 0 for none. All machines see it at the same one.
        own_signal: that this machine has had, told to the others at the next boundary.
    """

    def __init__(self, transport: Transport, entities, replicas: Sequence):
        """entities: _native.MachineRows. replicas: _native.MachineReplica, whose urgent block may be sent early."""
        self.transport = transport
        self._tables, self._replicas = [entities, *replicas], [*replicas]
        self.signal = self.own_signal = 0
        self.traffic = Traffic()
        self._posted = 0  # numbers of blocks
        self._under_way: List[_Posted] = []
        self._next: Optional[int] = None  # the step before which the last boundary lies
        self._drained: Optional[int] = None  # the boundary at which results are where they belong already

    def begin(self, step: int) -> None:
        """Before a step, whose rows have been announced: all values that it reads are here. Raises MachineError."""
        if self._next is None:  # the first one: nothing is under way, and no step before it has results
            self._exchange((AHEAD,), step - 1)
        if self._drained != step:
            self._exchange_urgent(step)
        if any(table.has_late(step) for table in self._tables):
            self._exchange((LATE,), step)
        self._post((AHEAD,) if self._drained == step else (REST, AHEAD), step, self._tables)
        self._next = step + 1

    def relations_done(self) -> None:
        """In a step: the replicas have their results, which can travel while entities are updated."""
        self._post((URGENT,), self._next, self._replicas)

    def drain(self) -> None:
        """After a step of all machines: every result is where it belongs, and all replicas are whole. All machines
        drain at the same steps."""
        if self._next is None or self._drained == self._next:
            return
        self._exchange_urgent(self._next)
        self._exchange((REST,), self._next)
        self._exchange((WHOLE,), self._next)
        self._drained = self._next

    def _exchange_urgent(self, boundary: int) -> None:
        if not any(posted.boundary == boundary for posted in self._under_way):
            self._post((URGENT,), boundary, self._replicas)
        self._post((URGENT,), boundary, self._tables[:1])
        self._land()

    def _exchange(self, names: Tuple[str, ...], boundary: int) -> None:
        self._post(names, boundary, self._tables)
        self._land()

    def _post(self, names: Tuple[str, ...], boundary: int, tables: Sequence) -> None:
        machine, everyone = self.transport.machine, range(self.transport.machines)
        posted = _Posted(self._posted, names, boundary, tables)
        parts = [posted.sizes(machine, to) if to != machine else None for to in everyone]
        received = [0 if each == machine else HEADER + sum(posted.sizes(each, machine)) for each in everyone]
        sent = [0 if each is None else HEADER + sum(each) for each in parts]
        block, at = np.empty(sum(sent), np.float32), 0
        for to, sizes in enumerate(parts):
            if sizes is None:
                continue
            block[at : at + HEADER].view(np.int32)[:] = [*posted.header(sum(sizes)), self.own_signal]
            at += HEADER
            for (name, table), size in zip(posted.parts, sizes):
                if size:
                    table.pack(name, boundary, machine, to, block[at : at + size])
                    self.traffic.add(name, size)
                at += size
        self.transport.post(self._posted, block, sent, received)
        self._posted += 1
        self._under_way.append(posted)

    def _land(self) -> None:
        """All that is under way, in the order in which it was posted."""
        under_way, self._under_way = self._under_way, []
        for posted in under_way:
            began = time.perf_counter()
            blocks = self.transport.wait(posted.number)
            self.traffic.wait_seconds += time.perf_counter() - began
            self._take_in(posted, blocks)

    def _take_in(self, posted: "_Posted", blocks: Sequence[np.ndarray]) -> None:
        machine, signals, offsets = self.transport.machine, [self.own_signal], {}
        for sender, block in enumerate(blocks):
            if sender == machine:
                continue
            sizes = posted.sizes(sender, machine)
            *known, signal = block[:HEADER].view(np.int32).tolist()
            if known != posted.header(sum(sizes)):
                raise MachineError(f"machine {sender} has sent another block than the one that is due at step "
                                   f"{posted.boundary}")
            signals.append(signal)
            offsets[sender] = HEADER + np.cumsum([0, *sizes])
        for place, (name, table) in enumerate(posted.parts):
            for sender, at in offsets.items():
                if at[place + 1] > at[place] or name in SETTLED:
                    table.land(name, posted.boundary, sender, machine, blocks[sender][at[place] : at[place + 1]])
            if name in SETTLED:
                table.settle(name, posted.boundary)
        if posted.names == (URGENT,) and posted.tables[0] is self._tables[0]:  # which all machines see of all at once
            self.signal = self.signal or max(signals)


@dataclass(frozen=True)
class _Posted:
    """Blocks of all machines that are under way: for each name the parts of each table, one behind the other."""

    number: int
    names: Tuple[str, ...]
    boundary: int
    tables: Sequence

    @property
    def parts(self) -> List[tuple]:
        """(name, table) of each part of a block."""
        return [(name, table) for name in self.names for table in self.tables]

    def sizes(self, sender: int, receiver: int) -> List[int]:
        """Floats of each part."""
        return [table.block_floats(name, self.boundary, sender, receiver) for name, table in self.parts]

    def header(self, floats: int) -> List[int]:
        """By which a block is known to be the one that is due."""
        number = len(self.tables)
        for name in self.names:
            number = 8 * number + _NUMBER[name]
        return [number, (self.boundary + 1) & 0x7FFFFFFF, floats & 0x7FFFFFFF]
