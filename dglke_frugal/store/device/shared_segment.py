"""Host memory that processes share."""

from __future__ import annotations

import mmap
import os

import numpy as np


class SharedSegment:
    """Zeroed memory that other processes map by its path while this one lives; it has no name in a file system."""

    def __init__(self, size: int):
        self._file = os.fdopen(os.memfd_create("frugal-segment", os.MFD_CLOEXEC), "r+b")
        self._file.truncate(size)
        self.path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        self.array = _map(self._file.fileno(), size)

    def close(self) -> None:
        """Nobody else comes; who has mapped it keeps it."""
        self._file.close()

    @staticmethod
    def attach(path: str) -> np.ndarray:
        """The segment of another process, (size,) uint8."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return _map(file, os.fstat(file).st_size)
        finally:
            os.close(file)


def _map(file: int, size: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(file, size), np.uint8)
