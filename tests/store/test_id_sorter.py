"""Ids that a GPU sorts, against NumPy; and the order in which lookups use its memory."""
import numpy as np
import pytest
import torch

from dglke_frugal import _native
from dglke_frugal.store.device_executor import CallersDevice, PinnedMemory
from sorted_ids import expected

pytestmark = pytest.mark.cuda
BLOCK = torch.empty(0, dtype=torch.uint8)  # of packed lookups, which these are not


def pinned_ids(memory, count):
    return memory.array_for(8 * count).view(np.int64)[:count]


@pytest.fixture(scope="module")
def device():
    return CallersDevice(0)


def arrays(device, lookup):
    """rows, inverse, offset and order of a device's lookup, through what its kernels do with them."""
    rows, distinct = lookup.rows, lookup.distinct
    records = torch.arange(4 * distinct, dtype=torch.float32, device="cuda").reshape(distinct, 4)
    sums = torch.zeros(distinct, 4, device="cuda")
    placed = _native.LookupMemory(BLOCK, records, sums).at(lookup)
    values, stream = torch.full((len(lookup), 4), -1.0, device="cuda"), torch.cuda.current_stream().cuda_stream
    placed.read(values.data_ptr(), stream)
    gradients = torch.ones(len(lookup), 4, device="cuda")
    placed.sum_up(gradients.data_ptr(), 4, len(lookup), 0, stream)
    return rows.copy(), values[:, 0].cpu().numpy(), sums[:, 0].cpu().numpy(), placed.order.cpu().numpy()


@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("count, rows", [(0, 5), (1, 1), (7, 3), (300, 10), (300, 10**9), (5000, 2**33), (65_536, 1),
                                         (70_000, 3), (300_000, 10**7), (200_000, 2**40)])
def test_sorted_ids_are_those_of_the_host(device, count, rows, owners):
    random = np.random.default_rng(count)
    ids = pinned_ids(PinnedMemory(device), count)
    ids[:] = np.minimum((rows * random.random(count) ** 4).astype(np.int64), rows - 1)
    ids[random.random(count) < 0.1] = _native.NO_ROW
    lookup = device.sort(ids, rows, owners).take()
    wanted_rows, inverse, offset, order = expected(ids, owners)
    found = arrays(device, lookup)
    absent = inverse == len(wanted_rows)
    np.testing.assert_array_equal(found[0], wanted_rows)
    np.testing.assert_array_equal(found[1], np.where(absent, 0, 4.0 * inverse))
    np.testing.assert_array_equal(found[2], np.diff(offset))
    np.testing.assert_array_equal(found[3], order)


def test_the_first_id_outside_of_the_table_is_named(device):
    ids = pinned_ids(PinnedMemory(device), 70_000)
    ids[:] = 3
    ids[[40_000, 69_999]] = 5, -7
    for _ in range(2):
        with pytest.raises(IndexError, match="id 5 at position 40000 is outside the table of 5 rows"):
            device.sort(ids, 5, 1).take()


def test_memory_is_used_again_behind_the_last_use(device):
    """Many sorts whose lookups are read late, in memory of two."""
    random, pinned, kept = np.random.default_rng(1), PinnedMemory(device), []
    values = [torch.empty(50_000, 4, device="cuda") for _ in range(20)]
    rows, sums = torch.arange(400.0, device="cuda").reshape(100, 4), torch.zeros(100, 4, device="cuda")
    for number, out in enumerate(values):
        ids = pinned_ids(pinned, 50_000)
        ids[:] = np.arange(50_000) % 100 if number == 0 else np.concatenate(
            [np.arange(100), random.integers(0, 100, 49_900)])
        kept.append(ids.copy())
        lookup = device.sort(ids, 100, 1).take()
        torch.cuda._sleep(2_000_000)  # so that the read below is late
        stream = torch.cuda.current_stream().cuda_stream
        _native.LookupMemory(BLOCK, rows, sums).at(lookup).read(out.data_ptr(), stream)
        device.join()
        device.give_back(lookup, device.record())
    for ids, out in zip(kept, values):
        np.testing.assert_array_equal(out[:, 0].cpu().numpy(), 4.0 * ids)
