"""How blocks of numbers get from every machine to every other one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Dict, List, Sequence

import numpy as np

LANES = AWAITED, BACKGROUND = range(2)  # of blocks that the next step waits for, and of the others
_LARGEST = 0x7FFFFFFF


class Transport(ABC):
    """Posts blocks and waits for those of the others. In each lane, which has one thread at a time, all machines post
    the same numbers in the same order.

    Attributes:
        machine, machines: which one this is, of how many.
    """

    machine: int
    machines: int

    @abstractmethod
    def post(self, lane: int, number: int, block: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> None:
        """Begin to send: `block` (sum of sent,) float32 holds sent[m] floats for each machine m, one behind the other.
        received: floats that come from each machine. The block must not change until `wait` has returned."""

    @abstractmethod
    def wait(self, lane: int, number: int) -> List[np.ndarray]:
        """What has come, by machine, (received[m],) float32. Each number is waited for once. Raises MachineError."""


class MachineError(RuntimeError):
    """Another machine has failed, or cannot be reached; the message says which one if that is known."""


def block_header(name: int, step: int, floats: int) -> List[int]:
    """By which a block is known to be the one that is due. name: its number."""
    return [name, step & _LARGEST, floats & _LARGEST]


def check_header(found: List[int], due: List[int], machine: int, step: int) -> None:
    """Raise MachineError if a machine has sent another block than the one that is due."""
    if found != due:
        raise MachineError(f"machine {machine} has sent another block than the one that is due at step {step}")


class GlooTransport(Transport):
    """By torch.distributed's all_to_all_single, called without its checks in Python, which take longer than it does."""

    def __init__(self, groups: Sequence, machine: int, machines: int):
        """groups: of each lane a gloo process group that nobody else uses."""
        self.machine, self.machines = machine, machines
        self._groups, self._under_way = groups, {}  # type: ignore[var-annotated]

    def post(self, lane, number, block, sent, received):
        import torch
        import torch.distributed as dist

        got = torch.empty(sum(received), dtype=torch.float32)
        try:
            work = self._groups[lane].alltoall_base(got, torch.from_numpy(block), list(received), list(sent),
                                                    dist.AllToAllOptions())
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


class Traffic:
    """What a machine has sent and waited for: bytes by block, seconds at boundaries, and seconds that the thread of the
    blocks has worked on them."""

    def __init__(self):
        self.bytes: Dict[str, int] = {}
        self.wait_seconds = self.work_seconds = 0.0

    def add(self, block: str, floats: int) -> None:
        """Floats of a block that was sent."""
        self.bytes[block] = self.bytes.get(block, 0) + 4 * floats
