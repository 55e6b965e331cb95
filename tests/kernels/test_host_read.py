"""Which way host rows are read, and that both ways read the same."""
import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.store.host_read import CopyReader, choose, median_rate, open_reader
from dglke_frugal.store.plan_kernels import FROM_HOST, gather_rows


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


@pytest.mark.parametrize("dim", [1, 50, 400])
def test_gather_and_copy_reads_what_reading_in_place_reads(dim):
    rng = np.random.default_rng(dim)
    table = _native.HostTable(300, dim)
    table.init_uniform(-1, 1, 5, 0)
    cache = rng.normal(size=(50, table.stride)).astype(np.float32)
    reader = CopyReader(table, 100, "cpu")
    for count in (1, 100, 37):
        rows = np.sort(rng.choice(300, count, replace=False)).astype(np.int64)
        source = np.where(rng.random(count) < 0.5, rng.integers(0, 50, count), FROM_HOST).astype(np.int32)
        in_place, copied = (np.zeros((count, table.stride), np.float32) for _ in range(2))
        gather_rows(dim, table.records, cache, rows, source, in_place)
        reader.gather(rows, source, source, cache, copied)
        np.testing.assert_array_equal(copied[:, : dim + 1], in_place[:, : dim + 1])
    with pytest.raises(ValueError, match="101 rows do not fit"):
        reader.gather(np.arange(101), np.zeros(101, np.int32), None, None, None)


@pytest.mark.cuda
@pytest.mark.parametrize("wanted", ["auto", "uva", "copy"])
def test_readers_of_a_device(wanted):
    import torch

    table = _native.HostTable(5000, 100)
    table.init_uniform(-1, 1, 5, 0)
    reader, chosen = open_reader(table, 1000, "cuda", wanted)
    assert chosen.mode in ("uva", "copy") if wanted == "auto" else chosen.mode == wanted
    rows = np.arange(0, 3000, 3, dtype=np.int64)
    source = np.full(1000, FROM_HOST, np.int32)
    records = torch.zeros((1000, table.stride), device="cuda")
    device_source, stream = torch.from_numpy(source).cuda(), torch.cuda.current_stream().cuda_stream
    if chosen.mode == "uva":
        reader.gather(torch.from_numpy(rows).cuda(), device_source, None, records, stream)
    else:
        reader.gather(rows, source, device_source, None, records, stream)
    np.testing.assert_array_equal(records.cpu().numpy()[:, :101], table.records[rows, :101])
