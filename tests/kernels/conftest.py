"""Where a kernel test runs: NumPy arrays on the CPU, tensors on a CUDA device. One suite for both."""
import numpy as np
import pytest

from benchmarks.kernels import CpuDevice, CudaDevice


class CpuMachine(CpuDevice):
    """Device memory is a second host buffer."""

    def get(self, array):
        return np.array(array)


class CudaMachine(CudaDevice):
    def get(self, array):
        self.torch.cuda.synchronize()
        return np.array(array) if isinstance(array, np.ndarray) else array.cpu().numpy()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def machine(request):
    return CpuMachine() if request.param == "cpu" else CudaMachine()
