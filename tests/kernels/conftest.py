"""Where a kernel test runs: NumPy arrays on the CPU, tensors on a CUDA device. One suite for both."""
import numpy as np
import pytest

from dglke_frugal import _native


class CpuMachine:
    """Device memory is a second host buffer."""

    name = "cpu"
    stream = 0

    def put(self, array):
        return np.array(array)

    def get(self, array):
        return np.array(array)

    def shared(self, table):
        """The records of a HostTable as the device reads and writes them in place."""
        return table.records


class CudaMachine:
    name = "cuda"

    def __init__(self):
        import torch

        self.torch = torch
        self.stream = torch.cuda.current_stream().cuda_stream
        self.registrations = []

    def put(self, array):
        return self.torch.from_numpy(np.array(array)).cuda()

    def get(self, array):
        self.torch.cuda.synchronize()
        return np.array(array) if isinstance(array, np.ndarray) else array.cpu().numpy()

    def shared(self, table):
        self.registrations.append(_native.HostRegistration(table.records))
        return table.records


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def machine(request):
    return CpuMachine() if request.param == "cpu" else CudaMachine()
