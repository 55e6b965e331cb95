"""The row kernels on rows in half precision, on the CPU and (marked cuda) on a device, against the CPU's own rows of a
step."""

import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.store.rows.half_embeddings import HalfEmbeddings
from dglke_frugal._native import RowTable, prepare_gather, prepare_write_back
from dglke_frugal.store.device.plan_kernels import FROM_HOST, WRITE_BACK_BUFFER, TO_CACHE, TO_HOST_ROW, update_tables

ROWS, SLOTS, USED, LEARNING_RATE = 500, 120, 200, 0.01
DIMS = [1, 2, 7, 33, 128, 257, 400, 1000]


def random_table(dim, rows=ROWS, seed=0):
    rng = np.random.default_rng([dim, seed])
    table = _native.HostTable(rows, dim, element="fp16")
    HalfEmbeddings(table)[:] = rng.normal(size=(rows, dim)) / 8
    table.state[:] = rng.random(rows) * (rng.random(rows) < 0.8)
    return table


def records_of(table, ids):
    """Rows as a step computes with them."""
    stride = -(-(table.dim + 1) // 32) * 32
    records = np.zeros((len(ids), stride), np.float32)
    records[:, : table.dim] = HalfEmbeddings(table)[ids]
    records[:, table.dim] = table.state[ids]
    return records


def plan(rng):
    rows = np.sort(rng.choice(ROWS, USED, replace=False)).astype(np.int64)
    source = np.where(rng.random(USED) < 0.4, rng.permutation(USED) % SLOTS, FROM_HOST).astype(np.int32)
    return rows, source


@pytest.mark.parametrize("dim", DIMS)
def test_rows_are_gathered_in_floats(machine, dim):
    rng = np.random.default_rng(dim)
    table, cache = random_table(dim), random_table(dim, SLOTS, 1)
    rows, source = plan(rng)
    there, host = machine.put(cache.records), machine.shared(table)
    for part, wanted in (("all", source == source), ("host", source == FROM_HOST), ("cache", source != FROM_HOST)):
        expected = np.where((source == FROM_HOST)[:, None], records_of(table, rows),
                            records_of(cache, np.maximum(source, 0)))
        records = machine.put(np.full(expected.shape, -1, np.float32))
        gather = prepare_gather(RowTable(dim, host, there, element="fp16"), machine.put(rows), machine.put(source),
                                records, part=part)
        gather(USED, machine.stream)
        found = machine.get(records)[:, : dim + 1]
        np.testing.assert_array_equal(found[wanted], expected[wanted, : dim + 1])
        assert (found[~wanted] == -1).all()


@pytest.mark.parametrize("dim, columns", [*((dim, ()) for dim in DIMS), (200, ((200, 200),)), (133, ((133, 133),)),
                                          (100, ((100, 50), (300, 50))), (401, ((57, 130), (1003, 271)))])
def test_rows_leave_with_the_bits_of_a_step_on_the_cpu(machine, dim, columns):
    """Into slots, from where they return, and into host rows; of a few rows many occurrences."""
    rng = np.random.default_rng(dim)
    table, expected = random_table(dim), random_table(dim)
    seed, number, step = 2**33 + 5, 2, 1_000_003
    rows, _ = plan(rng)
    entries, given = [], []
    for entry in range(2):
        counts = rng.integers(0, 4, USED)
        counts[: 6 : entry + 1] = rng.integers(5, 700, 6 // (entry + 1))
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        gradients = rng.normal(size=(offset[-1], dim)).astype(np.float32)
        entries.append((machine.put(gradients), machine.put(offset), None))
        given.append((np.repeat(rows, counts), gradients))
    in_steps = _native.StochasticRoundedRows(_native.DirectRows(expected), seed, number, columns)
    in_steps.announce(step, rows)
    in_steps.begin(step)
    for ids, gradients in given:
        in_steps.apply_entry(ids, gradients, LEARNING_RATE)
    in_steps.end()

    cache = machine.put(np.zeros((USED, table.stride), np.float32))
    leave = np.where(rng.random(USED) < 0.5, TO_CACHE, TO_HOST_ROW).astype(np.uint8)
    target = np.where(leave == TO_CACHE, np.arange(USED), rows)
    device_rows = machine.put(rows)
    addressed = RowTable(dim, machine.shared(table), cache, element="fp16", rounding=(seed, number, columns))
    update_tables([(addressed, machine.put(leave), machine.put(target), machine.put(records_of(table, rows)), entries,
                    None, (machine.put(np.array([step])), device_rows))], LEARNING_RATE, machine.stream)
    returned = np.where(leave == TO_CACHE, WRITE_BACK_BUFFER, TO_CACHE).astype(np.uint8)
    prepare_write_back(addressed, device_rows, machine.put(returned), machine.put(np.arange(USED)))(USED,
                                                                                                    machine.stream)
    machine.get(cache)
    np.testing.assert_array_equal(table.half_bits, expected.half_bits)
    np.testing.assert_array_equal(table.state, expected.state)


@pytest.mark.parametrize("blocks", [[((0, 200),), ((200, 200),)], [((0, 133),), ((133, 133),), ((266, 134),)],
                                    [((100 * i, 100),) for i in range(4)],
                                    [((100 * i, 100), (200 + 100 * i, 100)) for i in range(2)]])
def test_blocks_of_columns_have_the_bits_of_whole_rows(machine, blocks):
    """Updated by gradients of whole rows and by their mean squares, as ranks that have some columns each do."""
    rng = np.random.default_rng(len(blocks))
    dim, ids, step = 400, np.arange(30), machine.put(np.array([77]))
    counts = np.array([1, 2, 3, 9, 40] * 6)
    gradients, squares = rng.normal(size=(counts.sum(), dim)).astype(np.float32), rng.random(counts.sum())
    offset = machine.put(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    squares, leave, rows = machine.put(squares.astype(np.float32)), machine.put(np.full(30, TO_HOST_ROW, np.uint8)), \
        machine.put(ids)
    start = random_table(dim, len(ids))

    def updated(ranges):
        own = np.concatenate([np.arange(first, first + count) for first, count in ranges or [(0, dim)]])
        table = _native.HostTable(len(ids), len(own), element="fp16")
        table.half_bits[:], table.state[:] = start.half_bits[:, own], start.state
        entry = (machine.put(np.ascontiguousarray(gradients[:, own])), offset, None, squares)
        addressed = RowTable(len(own), machine.shared(table), element="fp16", rounding=(5, 1, ranges))
        update_tables([(addressed, leave, rows, machine.put(records_of(table, ids)), [entry], None, (step, rows))],
                      LEARNING_RATE, machine.stream)
        machine.get(rows)
        return own, np.array(table.half_bits)

    _, whole = updated(())
    assert (whole != start.half_bits).any()
    for own, found in map(updated, blocks):
        np.testing.assert_array_equal(found, whole[:, own])


@pytest.mark.parametrize("columns", [((0, 7),), ((0, 4), (4, 2), (6, 2)), ((-1, 8),), ((2**27, 8),)])
def test_columns_that_do_not_fill_a_row_are_refused(columns):
    with pytest.raises(ValueError, match="one or two ranges of columns"):
        _native.StochasticRoundedRows(_native.DirectRows(random_table(8)), 1, 0, columns)


@pytest.mark.parametrize("dim", [7, 128, 401])
def test_gradients_of_half_precision_rows_leave_in_floats(machine, dim):
    """As far apart as the step's records, of rows of few occurrences and of many; a value leaves with them."""
    rng = np.random.default_rng(dim)
    table, counts = random_table(dim, 4), np.array([2, 700, 1, 3])
    records = records_of(table, np.arange(4))
    stride, first = records.shape[1], np.cumsum(counts) - counts
    leave, target = np.array([2, 2, 1, 2], np.uint8), first * stride
    gradients = rng.normal(size=(counts.sum(), dim)).astype(np.float32)
    offset = machine.put(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    staging, rows = machine.put(np.zeros(counts.sum() * stride, np.float32)), machine.put(np.arange(4))
    addressed = RowTable(dim, machine.shared(table), None, staging, element="fp16", rounding=(1, 0, ()))
    update_tables([(addressed, machine.put(leave), machine.put(target), machine.put(records),
                    [(machine.put(gradients), offset, None)], None, (machine.put(np.array([9])), rows))],
                  LEARNING_RATE, machine.stream)
    found = machine.get(staging).reshape(-1, stride)
    travels = np.repeat(leave == 2, counts)
    np.testing.assert_array_equal(found[travels, :dim], gradients[travels])
    assert (found[travels, dim:] == 0).all()
    expected = random_table(dim, 4)
    in_steps = _native.StochasticRoundedRows(_native.DirectRows(expected), 1, 0)
    in_steps.announce(9, np.array([2]))
    in_steps.begin(9)
    in_steps.apply_entry(np.array([2]), gradients[first[2] :][:1], LEARNING_RATE)
    in_steps.end()
    floats = expected.record_floats
    whole = (found[first[2], :floats].view(np.uint16)[:dim], found[first[2], floats - 1])
    np.testing.assert_array_equal(whole[0], expected.half_bits[2])
    assert whole[1] == expected.state[2]


def test_records_of_half_precision_are_in_floats():
    table = random_table(8)
    with pytest.raises(ValueError, match="as far apart as rows of floats"):
        prepare_gather(RowTable(8, table.records, element="fp16"), np.array([0]), np.array([-1], np.int32),
                       np.zeros((1, 64), np.float32))


def test_half_precision_rows_are_not_updated_without_their_rounding():
    table, ids = random_table(8), np.array([0])
    records = records_of(table, ids)
    update = np.full(1, TO_HOST_ROW, np.uint8), ids, records, []
    for rounding, rounded in ((None, (np.array([9]), ids)), ((1, 0, ()), None)):
        addressed = RowTable(8, table.records, element="fp16", rounding=rounding)
        with pytest.raises(ValueError, match="rows in half precision are rounded"):
            update_tables([(addressed, *update, None, rounded)], LEARNING_RATE)
