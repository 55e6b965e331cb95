"""A rank's side of the exchange inside a step (csrc/comm)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Sequence

import numpy as np

from ... import _native
from ...store.device.shared_segment import SharedSegment
from .process_group import ProcessGroup, RankError

if TYPE_CHECKING:
    from ...store.device.device import Device  # which imports torch

SAY_SECONDS = 1.0  # from where a rank fails to where it says why


@dataclass(frozen=True)
class ExchangeFloats:
    """Floats of the regions of an exchange (csrc/comm/host_exchange.h). Without weights and squares nothing goes
    through those regions."""

    scores: int
    weights: int = 1
    squares: int = 4

    @classmethod
    def of_sums(cls, rows: int, dim: int, entries: int) -> ExchangeFloats:
        """For the sums of gradients of so many rows of a step, at most, in so many entries."""
        floats = _native.Replica.floats(rows, dim, entries)
        return cls(floats, squares=floats)  # the two regions take turns

    def segment_bytes(self, ranks: int) -> int:
        """Of the memory that so many ranks share for it."""
        return _native.exchange_bytes(ranks, self.scores, self.weights, self.squares)


class StepExchange:
    """Made in each rank, in memory that rank 0 makes and the others find, then connected in all of them.

    Attributes:
        native: what kernels take.
        path: where the other ranks find the memory.
        peer: whether devices reach each other's memory.
    """

    def __init__(self, size: ExchangeFloats, rank: int, ranks: int, device: Optional[Device],
                 path: Optional[str] = None):
        """path: what rank 0 has told the others."""
        self.rank, self.ranks, self._device = rank, ranks, device
        self._segment = None if path else SharedSegment(size.segment_bytes(ranks))
        memory = SharedSegment.attach(path) if path else self._segment.array
        self.path = path or self._segment.path
        self._on_gpu = device is not None and device.torch_device.type == "cuda"
        self.native = _native.Exchange(device.share(memory) if self._on_gpu else memory, rank, ranks,
                                       size.scores, size.weights, size.squares)
        self.peer = False

    @property
    def reaches(self) -> bool:
        """Whether ranks reach each other's device memory, once they are connected. As devices, CPUs do."""
        return self.peer or not self._on_gpu

    def connect(self, group: ProcessGroup, wanted: str) -> None:
        """Collective. wanted: --peer. All ranks go through host memory if one of them cannot reach another."""
        own = self._device.torch_device.index if self._on_gpu else None
        known = group.all_of({"device": own, "handle": self.native.handle().hex() if self._on_gpu else ""})
        if self._on_gpu:
            reaches = wanted != "off" and all(_native.reach_each_other(own, other["device"]) for other in known)
            if all(group.all_of(reaches)):
                self.peer = all(group.all_of(self._open([bytes.fromhex(other["handle"]) for other in known])))
            if not self.peer:
                self.native.connect([])
        if self._segment is not None:
            self._segment.close()

    def _open(self, handles: Sequence[bytes]) -> bool:
        try:
            self.native.connect(list(handles))
            return True
        except _native.DeviceError as error:
            print(f"GPUs exchange data through host memory: {error}", flush=True)
            return False

    def mean_squares(self):
        """(ranks, n) float32 on the device, where devices reach each other's memory: each rank's, over its own columns,
        as a step's gradients leave them before the ranks synchronise."""
        import torch  # here, because not every rank computes with it

        from ...store.device.peer_buffer import bytes_at

        address, floats = self.native.squares
        size = self.ranks * floats * np.dtype(np.float32).itemsize
        return bytes_at(address, size, self._device).view(torch.float32).view(self.ranks, floats)

    def check(self) -> None:
        """Raise RankError with the sentence of whoever has failed."""
        sentence = self.native.sentence
        if sentence:
            raise RankError(sentence)

    def check_soon(self) -> None:
        """The same of somebody who may be about to say so."""
        deadline = time.monotonic() + SAY_SECONDS
        while time.monotonic() < deadline:
            self.check()
            time.sleep(0.01)

    def fail(self, sentence: str) -> None:
        """Let nobody wait any more; all ranks stop with the first such sentence."""
        self.native.fail(sentence)
