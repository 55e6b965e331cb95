"""Which way host rows are read, and that both ways read the same."""
import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.store.device_memory import CudaMemory, HostMemory
from dglke_frugal.store.host_read import choose, median_rate, open_reader
from dglke_frugal.store.plan_kernels import FROM_HOST


def never():
    raise AssertionError("measured for nothing")


def refused():
    raise _native.DeviceError("cudaHostRegister failed: out of memory")


@pytest.mark.parametrize("uva, copy, mode", [(20e9, 10e9, "uva"), (10e9, 20e9, "copy"), (10e9, 10e9, "uva")])
def test_auto_takes_the_faster_way_and_says_both_rates(uva, copy, mode):
    chosen = choose("auto", lambda: uva, lambda: copy)
    assert (chosen.mode, chosen.uva_rate, chosen.copy_rate) == (mode, uva, copy)
    assert f"{uva / 1e9:.1f} GB/s in place" in chosen.reason and f"{copy / 1e9:.1f} GB/s by gather" in chosen.reason


def test_flags_go_before_the_probe():
    assert choose("copy", never, never).mode == "copy"
    assert choose("uva", lambda: 1.0, never).mode == "uva"
    with pytest.raises(ValueError, match="called mmap"):
        choose("mmap", never, never)


def test_a_refused_registration_falls_back_or_is_a_sentence():
    chosen = choose("auto", refused, never)
    assert chosen.mode == "copy" and "cudaHostRegister failed: out of memory" in chosen.reason
    with pytest.raises(InputError, match="--host_read uva is not possible: cudaHostRegister failed"):
        choose("uva", refused, never)


def test_rates_are_medians():
    now = iter([0, 1, 10, 12, 20, 29, 30, 33, 40, 41])  # runs of 1, 2, 9, 3 and 1 seconds
    assert median_rate(lambda: None, 10, clock=lambda: next(now)) == 5


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def memory(request):
    return HostMemory() if request.param == "cpu" else CudaMemory("cuda")


@pytest.mark.parametrize("wanted", ["auto", "uva", "copy"])
@pytest.mark.parametrize("dim", [1, 50, 400])
def test_both_ways_read_cache_slots_and_host_rows(memory, dim, wanted):
    rng = np.random.default_rng(dim)
    table = _native.HostTable(300, dim)
    table.init_uniform(-1, 1, 5, 0)
    cache = rng.normal(size=(50, table.stride)).astype(np.float32)
    reader, chosen = open_reader(table, 100, memory, wanted)
    assert chosen.reason and (chosen.mode == wanted or wanted == "auto")
    for count in (1, 100, 37):
        rows = np.sort(rng.choice(300, count, replace=False)).astype(np.int64)
        source = np.where(rng.random(count) < 0.5, rng.integers(0, 50, count), FROM_HOST).astype(np.int32)
        records = memory.zeros((count, table.stride))
        reader.gather(rows, source, memory.put(cache), records)
        expected = np.where((source == FROM_HOST)[:, None], table.records[rows], cache[source])
        np.testing.assert_array_equal(memory.get(records)[:, : dim + 1], expected[:, : dim + 1])


def test_more_rows_than_the_buffers_hold_are_refused():
    table = _native.HostTable(300, 4)
    reader, _ = open_reader(table, 100, HostMemory(), "copy")
    with pytest.raises(ValueError, match="101 rows do not fit"):
        reader.gather(np.arange(101), np.full(101, FROM_HOST, np.int32), None, None)
