"""Memory that a step computes in: NumPy arrays on the CPU, tensors on a CUDA device, behind the same few calls.

On the CPU a second host buffer plays device memory, so that what is built on this runs, and is tested, without a GPU.
"""
from __future__ import annotations

import numpy as np

from .. import _native


class HostMemory:
    """The CPU: nothing has to be copied, everything is done when a call returns."""

    stream = 0

    def put(self, array: np.ndarray):
        """The array as kernels on this device read it; valid as long as the array is."""
        return array

    def get(self, array) -> np.ndarray:
        """A device array as a NumPy array."""
        return np.asarray(array)

    def zeros(self, shape, dtype=np.float32):
        """A device array of zeros."""
        return np.zeros(shape, dtype)

    def pinned(self, shape, dtype=np.float32) -> np.ndarray:
        """A CPU array that copies to the device at full speed."""
        return np.zeros(shape, dtype)

    def copy(self, to, source) -> None:
        """Enqueue a copy between arrays of the same shape, one of them `pinned` or both on the device."""
        to[...] = source

    def share(self, array: np.ndarray) -> np.ndarray:
        """The array for kernels that read and write it in place; registered for as long as this object lives."""
        return array

    def record(self) -> None:
        """Remember how far the work that was enqueued goes."""

    def wait_for_event(self) -> None:
        """Wait for all work enqueued before the last `record`."""

    def synchronize(self) -> None:
        """Wait for all work."""


class CudaMemory:
    """A CUDA device; work goes to torch's current stream. See HostMemory for the calls."""

    def __init__(self, device):
        import torch

        self._torch = torch
        self._device = torch.device(device)
        self._registrations = []
        self._mark = None

    @property
    def stream(self) -> int:
        """torch's current stream on the device, as a number."""
        return self._torch.cuda.current_stream(self._device).cuda_stream

    def put(self, array):
        return self._torch.from_numpy(np.array(array)).to(self._device)

    def get(self, array):
        return array.cpu().numpy()

    def zeros(self, shape, dtype=np.float32):
        """Raises _native.DeviceError if the device has no room, with what was asked for and what is free."""
        try:
            return self._torch.zeros(shape, dtype=self._torch_type(dtype), device=self._device)
        except self._torch.cuda.OutOfMemoryError as error:
            free, total = self._torch.cuda.mem_get_info(self._device)
            wanted, free, total = (size / 2**30 for size in (np.prod(shape) * np.dtype(dtype).itemsize, free, total))
            raise _native.DeviceError(
                f"{self._device} has no room for {wanted:.2f} GiB: {free:.2f} of {total:.2f} GiB are free; use a "
                "smaller --cache_size or --cache_ratio") from error

    def pinned(self, shape, dtype=np.float32):
        # For small buffers alone: torch rounds pinned memory up to a power of two.
        return self._torch.zeros(shape, dtype=self._torch_type(dtype), pin_memory=True).numpy()

    def copy(self, to, source):
        if isinstance(source, np.ndarray):
            source = self._torch.from_numpy(source)
        to.copy_(source, non_blocking=True)

    def share(self, array):
        self._registrations.append(_native.HostRegistration(array))
        return array

    def record(self):
        self._mark = self._mark or self._torch.cuda.Event()
        self._mark.record(self._torch.cuda.current_stream(self._device))

    def wait_for_event(self):
        if self._mark is not None:
            self._mark.synchronize()

    def synchronize(self):
        self._torch.cuda.synchronize(self._device)

    def _torch_type(self, dtype):
        return self._torch.from_numpy(np.empty(0, dtype)).dtype
