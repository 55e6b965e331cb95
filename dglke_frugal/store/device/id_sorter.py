"""Sorts the ids of lookups on a CUDA device, ahead of the steps that need them."""
from __future__ import annotations

from typing import TYPE_CHECKING, List, Tuple

import numpy as np
import torch

from ... import _native
from .device import Device, Event

if TYPE_CHECKING:
    from .cuda_device import Stream

ROOM = 1.25  # of new memory, over the ids that are to be sorted


class IdSorter:
    """Sorts run one after the other on a stream of their own. The memory of a lookup is used again once it is given
    back."""

    def __init__(self, device: Device, stream: Stream):
        """stream: nobody else's."""
        self._device, self._stream = device, stream
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._free: List[Tuple[_native.SortMemory, Event]] = []

    def sort(self, ids: np.ndarray, rows: int, owners: int) -> _native.DeviceLookup:
        """See Device.sort."""
        memory, last_use = self._memory_for(len(ids))
        self._stream.wait(last_use)
        return _native.DeviceLookup(ids, rows, owners, memory, self._device.torch_device.index, self._stream.number)

    def give_back(self, lookup: _native.DeviceLookup, after: Event) -> None:
        """See Device.give_back."""
        self._free.append((lookup.memory, after))

    def _memory_for(self, count: int) -> Tuple[_native.SortMemory, Event]:
        """Memory with room for the ids, and the event behind which it may be used."""
        while self._free:
            memory, last_use = self._free.pop(0)
            if memory.most >= count:
                return memory, last_use
            last_use.wait()  # before somebody else gets it
        most, device = int(ROOM * count) + 1, self._device
        scratch = _native.SortMemory.scratch_bytes(most)
        if self._scratch.numel() < scratch:
            self._scratch = device.zeros(scratch, dtype=np.uint8)
        memory = _native.SortMemory(device.zeros(_native.SortMemory.sorted_bytes(most), dtype=np.uint8), self._scratch,
                                    device.pinned(most, dtype=np.int64).numpy(),
                                    device.pinned(_native.SortMemory.COUNTS, dtype=np.int64).numpy())
        return memory, device.record()
