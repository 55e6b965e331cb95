"""Memory that is given out again, on the CPU."""
import numpy as np

from dglke_frugal.store.device.device import Device
from dglke_frugal.store.device_executor import PinnedMemory


def test_memory_is_given_out_again_when_its_array_and_all_views_have_gone():
    memory = PinnedMemory(Device())
    view = memory.array_for(80).view(np.int64)[:5]
    address = view.ctypes.data
    other = memory.array_for(80)
    assert other.ctypes.data != address
    del view
    assert memory.array_for(72).ctypes.data == address


def test_memory_that_is_too_small_is_replaced():
    memory = PinnedMemory(Device())
    memory.array_for(8)
    assert len(memory.array_for(800)) >= 800
