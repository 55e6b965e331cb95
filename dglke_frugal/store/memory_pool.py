"""Memory of lookups that is used again: to map new memory for millions of ids takes longer than to copy them."""
from __future__ import annotations

import weakref
from typing import Callable, List

import numpy as np
import torch


class MemoryPool:
    """Blocks of memory, each of which is given out again when its array has gone."""

    def __init__(self, make: Callable[[int], torch.Tensor]):
        """make(size): a tensor (size,) uint8 on the CPU."""
        self._make = make
        self._free: List[torch.Tensor] = []

    def array(self, count: int, dtype: type = np.uint8) -> np.ndarray:
        """(count,) of dtype, with any values. The memory is free when nobody has this very array any more; views of it
        do not keep it."""
        size = count * np.dtype(dtype).itemsize
        memory = self._free.pop() if self._free else None
        if memory is None or memory.numel() < size:
            memory = self._make(size)
        array = memory[:size].numpy().view(dtype)
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array
