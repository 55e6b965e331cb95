"""Memory of a CUDA device, and host memory that it works with."""
from __future__ import annotations

import numpy as np

from .. import _native


class CudaMemory:
    """Of one device."""

    def __init__(self, device):
        import torch

        self._torch = torch
        self._device = torch.device(device)
        self._registrations = []

    def zeros(self, shape, dtype=np.float32):
        """A device array of zeros. Raises _native.DeviceError if the device has no room, with what was asked for and
        what is free."""
        try:
            return self._torch.zeros(shape, dtype=self._torch_type(dtype), device=self._device)
        except self._torch.cuda.OutOfMemoryError as error:
            free, total = self._torch.cuda.mem_get_info(self._device)
            wanted, free, total = (size / 2**30 for size in (np.prod(shape) * np.dtype(dtype).itemsize, free, total))
            raise _native.DeviceError(
                f"{self._device} has no room for {wanted:.2f} GiB: {free:.2f} of {total:.2f} GiB are free; use a "
                "smaller --cache_size or --cache_ratio") from error

    def pinned(self, shape, dtype=np.float32) -> np.ndarray:
        """A CPU array that copies to the device at full speed."""
        # For small buffers alone: torch rounds pinned memory up to a power of two.
        return self._torch.zeros(shape, dtype=self._torch_type(dtype), pin_memory=True).numpy()

    def share(self, array: np.ndarray) -> np.ndarray:
        """The array for kernels that read and write it in place; registered for as long as this object lives."""
        self._registrations.append(_native.HostRegistration(array))
        return array

    def _torch_type(self, dtype):
        return self._torch.from_numpy(np.empty(0, dtype)).dtype
