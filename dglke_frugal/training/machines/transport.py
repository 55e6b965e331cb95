"""How blocks of numbers get from every machine to every other one."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Dict, List, Sequence

import numpy as np

LANES = BETWEEN, BESIDE = range(2)  # of blocks that the next step waits for, and of the others


class Transport(ABC):
    """Posts blocks and waits for those of the others. In each lane, which has one thread at a time, all machines post
    the same numbers in the same order.

    Attributes:
        machine, machines: which one this is, of how many.
    """

    machine: int
    machines: int
    in_one_order = False  # whether blocks of both lanes must be posted in one order on all machines

    @abstractmethod
    def post(self, lane: int, number: int, block: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> None:
        """Begin to send: `block` (sum of sent,) float32 holds sent[m] floats for each machine m, one behind the other.
        received: floats that come from each machine. The block must not change until `wait` has returned."""

    @abstractmethod
    def wait(self, lane: int, number: int) -> List[np.ndarray]:
        """What has come, by machine, (received[m],) float32. Each number is waited for once. Raises MachineError."""

    def close(self) -> None:
        """All machines have come to the end."""


class MachineError(RuntimeError):
    """Another machine has failed, or cannot be reached; the message says which one if that is known."""


class GlooTransport(Transport):
    """By torch.distributed's all_to_all_single."""

    def __init__(self, groups: Sequence, machine: int, machines: int):
        """groups: of each lane a gloo process group that nobody else uses."""
        self.machine, self.machines = machine, machines
        self._groups, self._under_way = groups, {}  # type: ignore[var-annotated]

    def post(self, lane, number, block, sent, received):
        import torch
        import torch.distributed as dist

        got = torch.empty(sum(received), dtype=torch.float32)
        try:
            work = dist.all_to_all_single(got, torch.from_numpy(block), list(received), list(sent),
                                          group=self._groups[lane], async_op=True)
        except RuntimeError as error:
            raise MachineError(str(error)) from error
        self._under_way[lane, number] = work, got, block, received

    def wait(self, lane, number):
        work, got, _, received = self._under_way.pop((lane, number))
        try:
            work.wait()
        except RuntimeError as error:
            raise MachineError(str(error)) from error
        return np.split(got.numpy(), np.cumsum(received)[:-1])


class NcclTransport(Transport):
    """By NCCL, from host memory through buffers of a GPU, on a stream of its own. NCCL notices late that a machine has
    gone; that is heard at a gloo group, over which nothing else goes."""

    in_one_order = True  # a kernel of NCCL that waits for another machine may keep the next one from starting

    def __init__(self, group, alive, machine: int, machines: int):
        """group: of NCCL. alive: of gloo."""
        import torch

        self.machine, self.machines = machine, machines
        self._group, self._alive, self._under_way = group, alive, {}  # type: ignore[var-annotated]
        self._stream, self._gone = torch.cuda.Stream(), None  # type: ignore[var-annotated]
        self._listening = [threading.Thread(target=self._listen, args=(other,), daemon=True)
                           for other in range(machines) if other != machine]
        for thread in self._listening:
            thread.start()
        self.post(BETWEEN, -1, np.zeros(machines, np.float32), [1] * machines, [1] * machines)  # connects
        self.wait(BETWEEN, -1)

    def _listen(self, other: int) -> None:
        import torch
        import torch.distributed as dist

        try:
            dist.recv(torch.empty(1), other, group=self._alive)
        except RuntimeError as error:
            self._gone = error

    def close(self):
        import torch
        import torch.distributed as dist

        for other in range(self.machines):
            if other != self.machine:
                dist.send(torch.empty(1), other, group=self._alive)
        for thread in self._listening:
            thread.join()

    def post(self, lane, number, block, sent, received):
        import torch
        import torch.distributed as dist

        given = torch.from_numpy(block).pin_memory()
        back = torch.empty(sum(received), pin_memory=True)
        try:
            with torch.cuda.stream(self._stream):
                got = torch.empty(sum(received), device="cuda")
                dist.all_to_all_single(got, given.to("cuda", non_blocking=True), list(received), list(sent),
                                       group=self._group, async_op=True).wait()  # by the stream
                back.copy_(got, non_blocking=True)
                event = torch.cuda.Event()
                event.record()
        except RuntimeError as error:
            raise MachineError(str(error)) from error
        self._under_way[lane, number] = event, back, received

    def wait(self, lane, number):
        event, back, received = self._under_way.pop((lane, number))
        while not event.query():
            if self._gone is not None:
                raise MachineError(str(self._gone)) from self._gone
            time.sleep(20e-6)
        return np.split(back.numpy(), np.cumsum(received)[:-1])


class Traffic:
    """What a machine has sent and waited for: bytes by block, and seconds at boundaries."""

    def __init__(self):
        self.bytes: Dict[str, int] = {}
        self.wait_seconds = 0.0

    def add(self, block: str, floats: int) -> None:
        """Floats of a block that was sent."""
        self.bytes[block] = self.bytes.get(block, 0) + 4 * floats
