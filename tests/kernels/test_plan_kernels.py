"""The row kernels of a step, on the CPU and (marked cuda) on a device, against doing it row by row on a plain table."""

import numpy as np
import pytest
from threads import threads_as_before

from dglke_frugal import _native
from dglke_frugal._native import (RowTable, prepare_gather, prepare_publish, prepare_stage_evicted,
                                  prepare_write_back, segment_sums, write_back_evicted)
from dglke_frugal.store.device.plan_kernels import (FROM_HOST, WRITE_BACK_BUFFER, TO_CACHE, TO_HOST_ROW, TO_VALUE,
                                                    WRITE_BACK, as_bytes, update_tables)

DIMS = [1, 3, 7, 8, 50, 127, 400, 1000]
ROWS, SLOTS = 600, 250
LEARNING_RATE = 0.1


def random_table(dim, rng):
    table = _native.HostTable(ROWS, dim)
    table.embeddings[:] = rng.normal(size=(ROWS, dim))
    table.state[:] = rng.random(ROWS) * (rng.random(ROWS) < 0.8)  # some rows are new
    return table


def random_cache(table, rng):
    cache = np.zeros((SLOTS, table.stride), np.float32)
    cache[:, : table.dim] = rng.normal(size=(SLOTS, table.dim))
    cache[:, table.dim] = rng.random(SLOTS)
    return cache


class Plan:
    """A random step: rows of every source and every way to leave, 0 to 3 occurrences in each of two entries, of a few
    rows many."""

    def __init__(self, table, rng, used=300):
        self.rows = np.sort(rng.choice(ROWS, used, replace=False)).astype(np.int64)
        slots = rng.permutation(SLOTS * 2)[:used] % SLOTS
        self.source = np.where(rng.random(used) < 0.4, slots, FROM_HOST).astype(np.int32)
        self.leave = rng.integers(0, 4, used).astype(np.uint8)
        self.leave[:8] = rng.permutation(8) % 4
        self.offset, self.order, self.gradients = [], [], []
        for entry in range(2):
            counts = rng.integers(0, 4, used)
            counts[: 8 : entry + 1] = rng.integers(5, 300, 8 // (entry + 1))
            self.offset.append(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
            total = int(self.offset[-1][-1])
            self.order.append(None if entry == 0 else rng.permutation(total).astype(np.int32))
            self.gradients.append(rng.normal(size=(total, table.dim)).astype(np.float32))
        occurrences = sum(np.diff(offset) for offset in self.offset)
        self.target, staged, slots = np.empty(used, np.int64), 0, iter(rng.permutation(SLOTS).tolist())
        self.leave[np.cumsum(self.leave == TO_CACHE) > SLOTS] = TO_VALUE
        for u, leave in enumerate(self.leave.tolist()):
            if leave == TO_CACHE:
                self.target[u] = next(slots)
            elif leave == TO_HOST_ROW:
                self.target[u] = self.rows[u]
            else:
                self.target[u] = staged
                staged += table.stride * (1 if leave == TO_VALUE else int(occurrences[u]))
        self.staging_floats = staged

    def occurrences(self, entry, u):
        at = np.arange(self.offset[entry][u], self.offset[entry][u + 1])
        return self.gradients[entry][at if self.order[entry] is None else self.order[entry][at]]

    def entries(self, machine):
        return [(machine.put(gradients), machine.put(offset), None if order is None else machine.put(order))
                for gradients, offset, order in zip(self.gradients, self.offset, self.order)]


def read(table, cache, plan):
    return np.where((plan.source == FROM_HOST)[:, None], table.records[plan.rows], cache[plan.source])


def updated_records(table, plan, records):
    """The rows after the step, by the table's own update of one entry after the other."""
    scratch = _native.HostTable(len(plan.rows), table.dim)
    scratch.records[:] = records
    for entry in range(2):
        ids = np.repeat(np.arange(len(plan.rows)), np.diff(plan.offset[entry]))
        gradients = [plan.occurrences(entry, u) for u in range(len(plan.rows))]
        scratch.apply_entry(ids, np.ascontiguousarray(np.concatenate(gradients)), LEARNING_RATE)
    return np.array(scratch.records)


@pytest.mark.parametrize("dim", DIMS)
def test_gather_reads_cache_slots_and_host_rows(machine, dim):
    rng = np.random.default_rng(dim)
    table = random_table(dim, rng)
    cache, plan = random_cache(table, rng), Plan(table, rng)
    records = machine.put(np.zeros((len(plan.rows), table.stride), np.float32))
    gather = prepare_gather(RowTable(dim, machine.shared(table), machine.put(cache)), machine.put(plan.rows),
                            machine.put(plan.source), records)
    gather(len(plan.rows), machine.stream)
    np.testing.assert_array_equal(machine.get(records)[:, : dim + 1], read(table, cache, plan)[:, : dim + 1])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dim", DIMS)
def test_update_leaves_each_row_where_the_plan_says_with_the_hosts_bits(machine, dim, threads):
    rng = np.random.default_rng(dim + 1)
    table = random_table(dim, rng)
    cache, plan = random_cache(table, rng), Plan(table, rng)
    records = read(table, cache, plan)
    expected = updated_records(table, plan, records)
    host_before, staging = np.array(table.records), np.full(plan.staging_floats, -1, np.float32)
    device_cache, device_staging, host = machine.put(cache), machine.put(staging), machine.shared(table)
    with threads_as_before():
        _native.set_num_threads(threads)
        update_tables([(RowTable(dim, host, device_cache, device_staging), machine.put(plan.leave),
                        machine.put(plan.target), machine.put(records), plan.entries(machine))], LEARNING_RATE,
                      machine.stream)
    new_cache, new_staging = machine.get(device_cache), machine.get(device_staging)

    for u, (leave, target) in enumerate(zip(plan.leave.tolist(), plan.target.tolist())):
        row = expected[u, : dim + 1]
        if leave == TO_CACHE:
            np.testing.assert_array_equal(new_cache[target, : dim + 1], row)
            cache[target] = new_cache[target]
        elif leave == TO_HOST_ROW:
            np.testing.assert_array_equal(table.records[target, : dim + 1], row)
            host_before[target] = table.records[target]
        elif leave == TO_VALUE:
            np.testing.assert_array_equal(new_staging[target : target + dim + 1], row)
            staging[target : target + table.stride] = new_staging[target : target + table.stride]
        else:
            sent = np.concatenate([plan.occurrences(entry, u) for entry in range(2)])
            end = target + len(sent) * table.stride
            np.testing.assert_array_equal(new_staging[target:end].reshape(-1, table.stride)[:, :dim], sent)
            staging[target:end] = new_staging[target:end]
    np.testing.assert_array_equal(new_cache, cache)  # and nothing else was touched
    np.testing.assert_array_equal(new_staging, staging)
    np.testing.assert_array_equal(table.records, host_before)


@pytest.mark.parametrize("dim", DIMS)
def test_write_back_copies_whole_records(machine, dim):
    rng = np.random.default_rng(dim + 2)
    table = random_table(dim, rng)
    cache = random_cache(table, rng)
    count = 100
    write_backs = np.zeros(count, WRITE_BACK)
    write_backs["slot"] = rng.permutation(SLOTS)[:count]
    write_backs["row"] = rng.permutation(ROWS)[:count]
    write_backs["leave"] = np.where(np.arange(count) % 2, TO_VALUE, TO_HOST_ROW)
    write_backs["target"] = np.where(np.arange(count) % 2, np.arange(count) * table.stride, write_backs["row"])
    expected = np.array(table.records)
    staging = machine.put(np.zeros(count * table.stride, np.float32))
    write_back_evicted(RowTable(dim, machine.shared(table), machine.put(cache), staging),
                       machine.put(as_bytes(write_backs)), machine.stream)
    staged = machine.get(staging).reshape(count, table.stride)
    for i, one in enumerate(write_backs):
        place = staged[i] if i % 2 else table.records[one["row"]]
        np.testing.assert_array_equal(place[: dim + 1], cache[one["slot"], : dim + 1])
        expected[one["row"]] = expected[one["row"]] if i % 2 else table.records[one["row"]]
    np.testing.assert_array_equal(table.records, expected)


@pytest.mark.parametrize("dim", DIMS)
def test_rows_that_a_step_evicts_are_written_back_with_it(machine, dim):
    rng = np.random.default_rng(dim)
    table, used = random_table(dim, rng), SLOTS // 2
    cache, rows = random_cache(table, rng), rng.permutation(ROWS)
    leave = np.where(rng.random(used) < 0.5, TO_CACHE, WRITE_BACK_BUFFER).astype(np.uint8)
    target = np.where(leave == TO_CACHE, rng.permutation(used), used + np.arange(used))
    gone = np.flatnonzero((leave == TO_CACHE) & (rng.random(used) < 0.5))
    evicted = np.full(used, -1)
    evicted[gone] = rows[used : used + len(gone)]
    expected, host = cache.copy(), table.records.copy()
    expected[used + gone] = cache[target[gone]]
    host[evicted[gone]] = expected[used + gone]
    flying = leave == WRITE_BACK_BUFFER
    host[rows[:used][flying]] = expected[target[flying]]

    device_cache, device_target, device_evicted = machine.put(cache), machine.put(target), machine.put(evicted)
    first = machine.put(np.array([used]))
    addressed = RowTable(dim, machine.shared(table), device_cache)
    prepare_stage_evicted(addressed, device_target, device_evicted, first)(used, machine.stream)
    np.testing.assert_array_equal(machine.get(device_cache), expected)
    prepare_write_back(addressed, machine.put(rows[:used]), machine.put(leave), device_target, evicted=device_evicted,
                       first_buffer_slot=first)(used, machine.stream)
    machine.get(device_cache)
    np.testing.assert_array_equal(table.records, host)


def test_rows_evicted_to_nowhere_are_refused():
    table = random_table(7, np.random.default_rng(0))
    cache, ids = np.zeros((4, table.stride), np.float32), np.array([0, 1])
    addressed = RowTable(7, table.records, cache)
    for target, evicted, first, sentence in (([4, 0], [5, -1], 2, "evicts"), ([0, 1], [-1, 5], 3, "aside")):
        with pytest.raises(IndexError, match=f"row .*{sentence}"):
            prepare_stage_evicted(addressed, np.array(target), np.array(evicted), np.array([first]))(2)
    for evicted, first, sentence in ((ROWS, 2, "outside the table"), (5, 4, "outside the cache")):
        with pytest.raises(IndexError, match=sentence):
            prepare_write_back(addressed, ids, np.zeros(2, np.uint8), ids, evicted=np.array([evicted, -1]),
                               first_buffer_slot=np.array([first]))(2)
    with pytest.raises(ValueError, match="an evicted row"):
        prepare_stage_evicted(addressed, ids, ids[:1], np.array([2]))
    assert (cache == 0).all()


def test_offsets_go_beyond_32_bits(machine):
    """A row in the last of 10 GB of slots; the pages between are never touched, so they take no memory on the CPU."""
    dim, slots = 50, 40_000_000
    if machine.name == "cpu":
        table, cache = _native.HostTable(slots, dim), _native.HostTable(slots, dim).records
    else:
        table = _native.HostTable(ROWS, dim)
        cache = machine.torch.empty((slots, table.stride), dtype=machine.torch.float32, device="cuda")
    assert slots * table.stride > 2**31
    host, rows = machine.shared(table), np.array([0, table.rows - 2], np.int64)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, dim + 1)).astype(np.float32) ** 2
    cache[slots - 1, : dim + 1] = machine.put(values[0])
    host[rows[1], : dim + 1] = values[1]
    records = machine.put(np.zeros((2, table.stride), np.float32))
    source = machine.put(np.array([slots - 1, FROM_HOST], np.int32))
    addressed = RowTable(dim, host, cache)
    prepare_gather(addressed, machine.put(rows), source, records)(len(rows), machine.stream)
    np.testing.assert_array_equal(machine.get(records)[:, : dim + 1], values)

    nothing = (machine.put(np.zeros((0, dim), np.float32)), machine.put(np.zeros(3, np.int32)), None)
    update_tables([(addressed, machine.put(np.array([TO_CACHE, TO_HOST_ROW], np.uint8)),
                    machine.put(np.array([slots - 3, rows[1] - 1])), records, [nothing])], LEARNING_RATE,
                  machine.stream)
    np.testing.assert_array_equal(machine.get(cache[slots - 3])[: dim + 1], values[0])
    np.testing.assert_array_equal(host[rows[1] - 1, : dim + 1], values[1])


def test_rows_that_only_pad_are_left_alone(machine):
    rng = np.random.default_rng(4)
    table = random_table(50, rng)
    cache, records = random_cache(table, rng), np.array(table.records[:20])
    there = machine.put(cache)
    nothing = (machine.put(np.zeros((0, 50), np.float32)), machine.put(np.zeros(21, np.int32)), None)
    update_tables([(RowTable(50, machine.shared(table), there), machine.put(np.full(20, TO_CACHE, np.uint8)),
                    machine.put(np.arange(20)), machine.put(records), [nothing],
                    machine.put(np.array([12], np.int32)))],
                  LEARNING_RATE, machine.stream)
    np.testing.assert_array_equal(machine.get(there)[:12, :51], records[:12, :51])
    np.testing.assert_array_equal(machine.get(there)[12:], cache[12:])


def test_plans_that_point_outside_are_refused_before_anything_is_touched():
    rng = np.random.default_rng(3)
    table = random_table(8, rng)
    cache, plan = random_cache(table, rng), Plan(table, rng, used=40)
    records, staging = np.zeros((40, table.stride), np.float32), np.zeros(plan.staging_floats, np.float32)
    addressed = RowTable(8, table.records, cache, staging)

    def changed(array, value):
        copy = np.array(array)
        copy[17] = value
        return copy

    for rows, source in [(changed(plan.rows, ROWS), np.full(40, FROM_HOST, np.int32)),
                         (changed(plan.rows, -1), np.full(40, FROM_HOST, np.int32)),
                         (plan.rows, changed(plan.source, SLOTS)), (plan.rows, changed(plan.source, -3))]:
        with pytest.raises(IndexError, match="row 17 of the plan"):
            prepare_gather(addressed, rows, source, records)(len(rows))
    assert not records.any()

    before = np.array(table.records), np.array(cache)
    entries = [(gradients, offset, order) for gradients, offset, order in zip(plan.gradients, plan.offset, plan.order)]
    good = dict(leave=plan.leave, target=plan.target, records=records, entries=entries)
    bad_order = [entries[0], (entries[1][0], entries[1][1], changed(entries[1][2], len(entries[1][0])))]
    bad_offset = [entries[0], (entries[1][0], changed(entries[1][1], -1), entries[1][2])]
    for change in (dict(leave=changed(plan.leave, 9)), dict(target=changed(plan.target, -4)),
                   dict(target=changed(plan.target, 10**9)), dict(entries=bad_order), dict(entries=bad_offset)):
        with pytest.raises(IndexError, match="of the plan"):
            update_tables([(addressed, *{**good, **change}.values())], 0.1)
    with pytest.raises(IndexError, match="row 0 of the plan"):
        write_backs = np.zeros(1, WRITE_BACK)
        write_backs["slot"] = SLOTS
        write_back_evicted(addressed, as_bytes(write_backs))
    with pytest.raises(ValueError, match="equally far apart"):
        RowTable(8, table.records, cache[:, :-4].copy())
    np.testing.assert_array_equal(table.records, before[0])
    np.testing.assert_array_equal(cache, before[1])
    assert not staging.any()


@pytest.mark.cuda
def test_publish_follows_the_work_of_its_stream():
    import torch

    table = _native.HostTable(1, 31)
    registration = _native.HostRegistration(table.records)
    counter = table.records.view(np.uint64)[0, :1]
    value = torch.tensor([2**40 + 3], device="cuda")
    prepare_publish(counter, value)(1, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert counter[0] == 2**40 + 3
    assert registration.nbytes >= table.nbytes


def test_devices_or_the_reason_why_there_are_none():
    devices, reason = _native.cuda_devices()
    assert bool(devices) != bool(reason)
    for device in devices:
        assert device["total_bytes"] > 0 and device["capability"] >= (5, 0)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("ordered", [False, True])
def test_segment_sums_add_up_in_order(machine, dim, ordered):
    rng = np.random.default_rng(dim)
    counts = rng.integers(0, 5, 200)
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    total = int(offset[-1])
    order = rng.permutation(total).astype(np.int32) if ordered else None
    values = rng.normal(size=(total, dim)).astype(np.float32)
    expected = np.zeros((200, dim), np.float32)
    for u in range(200):
        for i in range(offset[u], offset[u + 1]):
            expected[u] += values[order[i] if ordered else i]
    sums = machine.put(np.full((200, dim), 7, np.float32))
    segment_sums(machine.put(values), machine.put(offset), order if order is None else machine.put(order), sums,
                 machine.stream)
    np.testing.assert_array_equal(machine.get(sums), expected)


def test_segment_sums_of_few_long_rows_add_up_in_order(machine):
    """As of matrices: on a GPU several blocks share such a row, with few gradients and with many."""
    rng, dim = np.random.default_rng(0), 5000
    offset = np.array([0, 200, 203, 203, 243], np.int32)
    values = rng.normal(size=(offset[-1], dim)).astype(np.float32)
    expected = np.zeros((4, dim), np.float32)
    for u in range(4):
        for row in values[offset[u] : offset[u + 1]]:
            expected[u] += row
    sums = machine.put(np.full((4, dim), 7, np.float32))
    segment_sums(machine.put(values), machine.put(offset), None, sums, machine.stream)
    np.testing.assert_array_equal(machine.get(sums), expected)


def test_segments_that_point_outside_are_refused():
    values, sums = np.zeros((4, 3), np.float32), np.full((2, 3), 7, np.float32)
    with pytest.raises(IndexError, match="row 1 of the plan"):
        segment_sums(values, np.array([0, 2, 5], np.int32), None, sums)
    with pytest.raises(IndexError, match="without a gradient"):
        segment_sums(values, np.array([0, 2, 4], np.int32), np.array([0, 1, 4, 2], np.int32), sums)
    with pytest.raises(ValueError, match="one number more"):
        segment_sums(values, np.array([0, 2], np.int32), None, sums)
    assert (sums == 7).all()
