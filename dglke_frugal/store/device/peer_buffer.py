"""Memory of a device that the devices of other ranks read and write."""

from __future__ import annotations

from typing import List

import numpy as np
import torch

from ... import _native
from .device import Device
from .shared_segment import SharedSegment


class PeerBuffer:
    """Zeroed memory of the CPU as a device, which all processes of the machine reach.

    Attributes:
        memory: (bytes,) uint8, from a whole line of 128 bytes on.
        handle: for `open` in other ranks, a string.
    """

    memory: torch.Tensor
    handle: str

    def __init__(self, size: int):
        self._segment = SharedSegment(size)
        self.memory, self.handle = torch.from_numpy(self._segment.array), self._segment.path
        self._opened: List[np.ndarray] = []

    def open(self, handle: str) -> int:
        """The address of another rank's buffer, as long as this one lives. Raises _native.DeviceError if it is out of
        reach."""
        self._opened.append(SharedSegment.attach(handle))
        return self._opened[-1].ctypes.data

    def close(self) -> None:
        """Nobody opens it any more."""
        self._segment.close()


class CudaPeerBuffer(PeerBuffer):
    """Of a CUDA device. Raises _native.DeviceError if there is no room."""

    def __init__(self, size: int, device: Device, what: str):
        """what: it is for, as the end of a sentence."""
        with device.current():
            self._native = _native.PeerBuffer(size, what)
            self.memory = bytes_at(self._native.address, size, device)
        self.handle = self._native.handle().hex()

    def open(self, handle):
        return self._native.open(bytes.fromhex(handle))

    def close(self):
        """CUDA frees it when nobody holds its memory."""


class _Bytes:
    """Device memory as torch takes it without a copy."""

    def __init__(self, address: int, size: int):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def bytes_at(address: int, size: int, device: Device) -> torch.Tensor:
    """Memory of a CUDA device, (size,) uint8, which somebody else keeps."""
    return torch.as_tensor(_Bytes(address, size), device=device.torch_device)


def peer_buffer(size: int, device: Device, what: str) -> PeerBuffer:
    """On a device of either kind."""
    return CudaPeerBuffer(size, device, what) if device.torch_device.type == "cuda" else PeerBuffer(size)
