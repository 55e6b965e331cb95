"""The entities of one of several machines in a step against all entities, and what the machines exchange for it.

All machines train on the same batch, so that nothing of batches travels. A machine owns a range of entities, scores
these alone, and has all relations, which every machine updates alike. In a step three things travel, in float32: the
rows of the batch's entities, from their owners to all machines; the sums of each query's softmax over a machine's
entities, which all machines combine in the order of machines; and each query's gradient over a machine's entities. Each
machine adds up the gradients of its part of the queries, in the order of machines, and sends them to all.
"""

from __future__ import annotations

import time
from typing import List, Sequence

import numpy as np
import torch

from ... import _native
from ..full_softmax.entity_share import BatchEntities, EntityShare
from .group import FoundByAll
from .softmax_blocks import HEADER, PARTS, ROWS, SUMS, WHOLE
from .transport import AWAITED, Traffic, Transport, block_header, check_header

_NUMBER = {name: number for number, name in enumerate((ROWS, SUMS, PARTS, WHOLE), start=1)}
_MASK = 0x7FFFFFFF  # of sums of a batch's relations


class MachineShare(EntityShare):
    """The range of entities that this machine owns.

    Attributes:
        signal: the number of the signal that some machine has received; 0 for none. All machines read it after the same
            step.
        own_signal: the number that this machine has received, sent to the others in the next step.
        traffic: of this machine.
    """

    def __init__(self, transport: Transport, owners: _native.RowOwners):
        """owners: of ranges of ids."""
        super().__init__(owners.rows)
        self._transport, self._machine, self._machines = transport, transport.machine, transport.machines
        self._bounds = np.cumsum([0, *(owners.count(machine) for machine in range(transport.machines))])
        self.first, self._last = self._bounds[self._machine : self._machine + 2].tolist()
        self.signal = self.own_signal = 0
        self.traffic = Traffic()
        self._step = self._posted = 0
        self._places = np.zeros(self._machines + 1, np.int64)  # in the batch's entities, of each machine's first one

    def find(self, batch):
        """See EntityShare."""
        ids = batch["entity_rows"]
        self._step, self._places = int(batch["step"]), np.searchsorted(ids.numpy(), self._bounds)
        own = slice(*self._places[self._machine : self._machine + 2].tolist())
        rows = torch.full_like(ids, self._last - self.first)
        rows[own] = ids[own] - self.first
        count = torch.tensor([own.stop - own.start], dtype=torch.int32)
        return BatchEntities(ids.clamp(max=self.entities - 1), rows, own, count)

    def embeddings(self, found, table, relations):
        """See EntityShare. Raises FoundByAll if machines have other relations, and MachineError."""
        own, dim = table[found.rows[found.own]].reshape(-1).numpy(), table.shape[1]
        alike = int(relations.view(torch.int32).sum(dtype=torch.int64)) & _MASK
        parts = self._exchange(ROWS, [own] * self._machines, np.diff(self._places) * dim, alike)
        rows = torch.zeros(len(found.ids), dim)  # of what only pads as well, so that it is finite
        rows[: self._places[-1]] = torch.from_numpy(np.concatenate(parts)).reshape(-1, dim)
        return rows

    def combine(self, sums):
        """See EntityShare."""
        own = sums.reshape(-1).numpy()
        parts = [torch.from_numpy(part).reshape(sums.shape)
                 for part in self._exchange(SUMS, [own] * self._machines, [len(own)] * self._machines)]
        largest, total, wanted = (each.clone() for each in parts[0])
        for of_machine in parts[1:]:
            higher = torch.maximum(largest, of_machine[0])
            total = total * (largest - higher).exp() + of_machine[1] * (of_machine[0] - higher).exp()
            largest, wanted = higher, wanted + of_machine[2]
        sums.copy_(torch.stack([largest, total, wanted]))

    def add(self, values):
        """See EntityShare."""
        flat = values.reshape(-1).numpy()
        bounds = [len(flat) * machine // self._machines for machine in range(self._machines + 1)]
        sizes = np.diff(bounds)
        parts = self._exchange(PARTS, np.split(flat, bounds[1:-1]), [sizes[self._machine]] * self._machines)
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        whole = self._exchange(WHOLE, [total] * self._machines, sizes)
        values.copy_(torch.from_numpy(np.concatenate(whole)).reshape(values.shape))

    def _exchange(self, name: str, given: Sequence[np.ndarray], floats: Sequence[int],
                  alike: int = 0) -> List[np.ndarray]:
        """given: of this machine for each one, (n,) float32. floats: that each gives to this one. alike: what must be
        the same number on all machines. Returns what each has given, by machine; what this one has given itself stays
        where it is."""
        others = [machine for machine in range(self._machines) if machine != self._machine]
        sent, received = ([0 if machine == self._machine else HEADER + int(count)
                           for machine, count in enumerate(counts)] for counts in (map(len, given), floats))
        block = np.concatenate([piece for machine in others for piece in (
            np.array([*self._header(name, len(given[machine])), self.own_signal, alike], np.int32).view(np.float32),
            given[machine])])
        self.traffic.add(name, len(block))
        self._transport.post(AWAITED, self._posted, block, sent, received)
        began = time.perf_counter()
        blocks = self._transport.wait(AWAITED, self._posted)
        self.traffic.wait_seconds += time.perf_counter() - began
        self._posted += 1
        return self._checked(name, blocks, given, floats, alike)

    def _checked(self, name: str, blocks: Sequence[np.ndarray], given: Sequence[np.ndarray], floats: Sequence[int],
                 alike: int) -> List[np.ndarray]:
        """The blocks without their headers, by machine. Raises MachineError, and FoundByAll."""
        found = [given[machine] if machine == self._machine else block[HEADER:] for machine, block in enumerate(blocks)]
        signals, numbers = [self.own_signal] * self._machines, [alike] * self._machines
        for machine, block in enumerate(blocks):
            if machine != self._machine:
                *known, signals[machine], numbers[machine] = block[:HEADER].view(np.int32).tolist()
                check_header(known, self._header(name, floats[machine]), machine, self._step)
        if name == ROWS:
            self.signal = self.signal or max(signals)
        for machine, number in enumerate(numbers):
            if number != numbers[0]:
                raise FoundByAll(f"machine {machine} has computed other relations than machine 0, before step "
                                 f"{self._step}: processors of different kinds round differently; use machines of one "
                                 "kind")
        return found

    def _header(self, name: str, floats: int) -> List[int]:
        return block_header(_NUMBER[name], self._step, int(floats))
