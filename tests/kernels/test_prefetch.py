"""What a step brings from the host by one kernel, on the CPU and (marked cuda) on a device."""
import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal._native import RowTable, prepare_gather, prepare_prefetch
from dglke_frugal.store.device.plan_kernels import FROM_HOST

ROWS, USED, MOST = 900, 300, 333
ROW_BYTES, SOURCE_BYTES = 8 * MOST, 4 * MOST
PLAN_BYTES = -(-(16 + ROW_BYTES + SOURCE_BYTES) // 16) * 16


def packed_plan(rng):
    """(bytes, rows, source) of a plan of MOST rows, the last of which pad."""
    plan = rng.integers(0, 256, PLAN_BYTES).astype(np.uint8)
    rows, source = plan[16 : 16 + ROW_BYTES].view(np.int64), plan[16 + ROW_BYTES :][:SOURCE_BYTES].view(np.int32)
    rows[:] = ROWS
    rows[:USED] = np.sort(rng.choice(ROWS, USED, replace=False))
    source[:] = 7
    source[:USED] = np.where(rng.random(USED) < 0.4, rng.permutation(USED), FROM_HOST)
    return plan, rows, source


def address(memory):
    return memory.ctypes.data if isinstance(memory, np.ndarray) else memory.data_ptr()


@pytest.mark.parametrize("crossing", ["bus", "small_table"])
@pytest.mark.parametrize("dim, element", [(1, "fp32"), (400, "fp32"), (1000, "fp32"), (400, "fp16"), (77, "fp16")])
def test_block_plan_and_rows_come_together(machine, dim, element, crossing):
    rng = np.random.default_rng(dim)
    table = _native.HostTable(ROWS, dim, element=element)
    table.records[:] = rng.integers(0, 2**14, table.records.shape).astype(np.float32)
    stride = -(-(dim + 1) // 32) * 32
    shared = _native.HostTable(3 * PLAN_BYTES // 4, 1)  # host memory that a device reads
    packed, cell, following = machine.shared(shared).reshape(-1).view(np.uint8)[: 3 * PLAN_BYTES].reshape(3, -1)
    host = machine.shared(table)
    block, plan = (machine.put(np.zeros(PLAN_BYTES, np.uint8)) for _ in range(2))
    rows, source = plan[16 : 16 + ROW_BYTES], plan[16 + ROW_BYTES : 16 + ROW_BYTES + SOURCE_BYTES]
    if machine.name == "cpu":
        rows, source = rows.view(np.int64), source.view(np.int32)
    else:
        rows, source = rows.view(machine.torch.int64), source.view(machine.torch.int32)
    records = machine.put(np.full((MOST, stride), -1, np.float32))
    prefetch = prepare_prefetch(RowTable(dim, host, element=element), block, plan, rows, source, records, crossing)
    ahead = machine.put(np.zeros((2, PLAN_BYTES), np.uint8))  # where the plan of the next prefetch comes meanwhile
    steps = [packed_plan(rng) for _ in range(4)]  # other rows each time
    for step, (final, there, wanted) in enumerate(steps):
        comes = step % 2 == 0  # the next one with this one; then this one has not come with the one before
        packed[:], before = rng.integers(0, 256, PLAN_BYTES), machine.get(records)
        if comes:
            cell[:], following[:] = final, steps[step + 1][0]
            prefetch(packed.ctypes.data, cell.ctypes.data, following.ctypes.data, address(ahead[1]), machine.stream)
        else:
            prefetch(packed.ctypes.data, address(ahead[1]), 0, 0, machine.stream)
        expected = before.copy()
        prepare_gather(RowTable(dim, table.records, element=element), there, wanted, expected, part="host")(len(there))
        np.testing.assert_array_equal(machine.get(records), expected)
        assert not np.array_equal(expected, before)
        np.testing.assert_array_equal(machine.get(block), packed)
        np.testing.assert_array_equal(machine.get(plan), final)


def test_arrays_that_cannot_be_prefetched_are_refused():
    table, memory = _native.HostTable(ROWS, 4), np.zeros(PLAN_BYTES, np.uint8)
    rows, source = memory[16 : 16 + ROW_BYTES].view(np.int64), memory[16 + ROW_BYTES :][:SOURCE_BYTES].view(np.int32)
    records, addressed = np.zeros((MOST, 32), np.float32), RowTable(4, table.records)
    with pytest.raises(ValueError, match="parts of the plan's memory"):
        prepare_prefetch(addressed, memory, memory, rows.copy(), source, records, "bus")
    with pytest.raises(ValueError, match="whole words of 16 bytes"):
        prepare_prefetch(addressed, memory[:20], memory, rows, source, records, "bus")
    prefetch = prepare_prefetch(addressed, memory, memory, rows, source, records, "bus")
    with pytest.raises(ValueError, match="whole words of 16 bytes"):
        prefetch(memory.ctypes.data + 8, memory.ctypes.data, 0, 0, 0)
    with pytest.raises(ValueError, match="whole words of 16 bytes"):
        prefetch(memory.ctypes.data, memory.ctypes.data, memory.ctypes.data, memory.ctypes.data + 8, 0)
    rows[0] = ROWS
    source[0] = FROM_HOST
    final = memory.copy()
    with pytest.raises(IndexError):
        prefetch(final.ctypes.data, final.ctypes.data, 0, 0, 0)
