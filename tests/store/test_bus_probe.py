"""What a bus takes of rows, measured."""
import numpy as np
import pytest

from dglke_frugal.store import bus_probe
from dglke_frugal.store.device import Device


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    if request.param == "cpu":
        return Device()
    from dglke_frugal.store.cuda_device import CudaDevice

    return CudaDevice(0)


def test_it_takes_time_by_either_length(device):
    own, whole = bus_probe.bus_seconds(device, 96, 3, 40 << 20)
    assert 0 < own < 0.5 and 0 < whole < 0.5


def test_all_rows_move_both_ways(device, monkeypatch):
    """Of as many bytes by either length, and those that depart land where they belong."""
    monkeypatch.setattr(bus_probe, "PASSES", 1)
    moved = []
    median = bus_probe._median_seconds

    def watch(device, host, count):
        host[:, 1:] = 1.0
        seconds = median(device, host, count)
        moved.append((host.shape[1], count, int((host[:, 1:] == 0).all(axis=1).sum())))
        return seconds

    monkeypatch.setattr(bus_probe, "_median_seconds", watch)
    bus_probe.bus_seconds(device, 64, 2, 20 << 20)
    assert moved == [(64, 4096, 4096), (128, 2048, 2048)]


def test_rows_are_those_of_a_step():
    rows = bus_probe._some_rows(np.random.default_rng(0), 5000, 4096)
    assert len(rows) == 4096 and (np.diff(rows) > 0).all() and 0 <= rows[0] and rows[-1] < 5000


def test_small_tables_have_room_for_its_rows(device):
    own, whole = bus_probe.bus_seconds(device, 32, 2, 1)
    assert own > 0 and whole > 0
