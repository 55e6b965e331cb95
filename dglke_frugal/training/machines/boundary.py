"""What happens between two steps of all machines: blocks are made, sent and taken in (csrc/machines/machine_steps.h)."""

from __future__ import annotations

import time
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

    def __init__(self, transport: Transport, tables: Sequence):
        """tables: _native.MachineRows and MachineReplica."""
        self.transport, self._tables = transport, tables
        self.signal = self.own_signal = 0
        self.traffic = Traffic()
        self._posted = 0  # numbers of blocks
        self._under_way: Optional[Tuple[int, int, Tuple[str, ...]]] = None  # number, boundary, names
        self._next: Optional[int] = None  # the step before which the last boundary lies
        self._drained: Optional[int] = None  # the boundary at which results are home already

    def begin(self, step: int) -> None:
        """Before a step, whose rows have been announced: all values that it reads are here. Raises MachineError."""
        if self._next is None:  # the first one: nothing is under way, and no step before it has results
            self._exchange((AHEAD,), step - 1)
        if self._drained != step:
            self._land_under_way()
            self._exchange((URGENT,), step)
        if self._any_late(step):
            self._exchange((LATE,), step)
        names = (AHEAD,) if self._drained == step else (REST, AHEAD)
        self._under_way = self._post(names, step), step, names
        self._next = step + 1

    def drain(self) -> None:
        """After a step of all machines: every result is where it belongs, and all replicas are whole. All machines drain at
        the same steps."""
        if self._next is None or self._drained == self._next:
            return
        self._land_under_way()
        self._exchange((URGENT,), self._next)
        self._exchange((REST,), self._next)
        self._exchange((WHOLE,), self._next)
        self._drained = self._next

    def _any_late(self, boundary: int) -> bool:
        everyone = range(self.transport.machines)
        return any(table.block_floats(LATE, boundary, sender, receiver) for table in self._tables
                   for sender in everyone for receiver in everyone if sender != receiver)

    def _exchange(self, names: Tuple[str, ...], boundary: int) -> None:
        self._land(self._post(names, boundary), boundary, names)

    def _land_under_way(self) -> None:
        if self._under_way is not None:
            self._land(*self._under_way)
            self._under_way = None

    def _sizes(self, names: Tuple[str, ...], boundary: int, sender: int, receiver: int) -> List[int]:
        """Floats of the parts of a block: for each name, those of each table."""
        return [table.block_floats(name, boundary, sender, receiver) for name in names for table in self._tables]

    def _post(self, names: Tuple[str, ...], boundary: int) -> int:
        machine = self.transport.machine
        parts = [self._sizes(names, boundary, machine, to) if to != machine else None
                 for to in range(self.transport.machines)]
        sent = [0 if each is None else HEADER + sum(each) for each in parts]
        received = [0 if each == machine else HEADER + sum(self._sizes(names, boundary, each, machine))
                    for each in range(self.transport.machines)]
        block, at = np.empty(sum(sent), np.float32), 0
        for to, sizes in enumerate(parts):
            if sizes is None:
                continue
            block[at : at + HEADER].view(np.int32)[:] = _header(names, boundary, sum(sizes), self.own_signal)
            at += HEADER
            for (name, table), size in zip(self._parts(names), sizes):
                if size:
                    table.pack(name, boundary, machine, to, block[at : at + size])
                    self.traffic.add(name, size)
                at += size
        self._posted += 1
        self.transport.post(self._posted, block, sent, received)
        return self._posted

    def _parts(self, names: Tuple[str, ...]):
        return [(name, table) for name in names for table in self._tables]

    def _land(self, number: int, boundary: int, names: Tuple[str, ...]) -> None:
        machine = self.transport.machine
        began = time.perf_counter()
        blocks = self.transport.wait(number)
        self.traffic.wait_seconds += time.perf_counter() - began
        offsets = {}
        signals = [self.own_signal]
        for sender, block in enumerate(blocks):
            if sender == machine:
                continue
            sizes = self._sizes(names, boundary, sender, machine)
            *known, signal = block[:HEADER].view(np.int32).tolist()
            if known != _header(names, boundary, sum(sizes), 0)[:-1]:
                raise MachineError(f"machine {sender} has sent another block than the one that is due at step {boundary}")
            signals.append(signal)
            offsets[sender] = HEADER + np.cumsum([0, *sizes])
        for place, (name, table) in enumerate(self._parts(names)):
            for sender, at in offsets.items():
                if at[place + 1] > at[place] or name in SETTLED:
                    table.land(name, boundary, sender, machine, blocks[sender][at[place] : at[place + 1]])
            if name in SETTLED:
                table.settle(name, boundary)
        if names == (URGENT,):  # which all machines see of all
            self.signal = self.signal or max(signals)


def _header(names: Tuple[str, ...], boundary: int, floats: int, signal: int) -> List[int]:
    number = 0
    for name in names:
        number = 8 * number + _NUMBER[name]
    return [number, (boundary + 1) & 0x7FFFFFFF, floats & 0x7FFFFFFF, signal]
