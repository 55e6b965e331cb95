"""The engine's plans carried out by the kernels give the table of plain loops, to the bit, with any cache."""
import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.config import CACHE_POLICIES
from dglke_frugal.store.cache_policy import make_policy
from dglke_frugal.store.device_memory import CudaMemory, HostMemory
from dglke_frugal.store.device_rows import DeviceRows
from dglke_frugal.store.engine import Engine, EngineConfig
from dglke_frugal.store.host_read import open_reader

ROWS, DIM, STEPS, LEARNING_RATE = 400, 50, 30, 0.1


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def memory(request):
    return HostMemory() if request.param == "cpu" else CudaMemory("cuda")


def workload():
    rng = np.random.default_rng(3)
    return [[(np.minimum((rng.random(size) ** 3 * ROWS).astype(np.int64), ROWS - 1),
              rng.normal(size=(size, DIM)).astype(np.float32)) for size in (40, 25)] for _ in range(STEPS)]


def new_table():
    table = _native.HostTable(ROWS, DIM)
    table.init_uniform(-0.5, 0.5, 1, 0)
    return table


@pytest.fixture(scope="module")
def expected():
    table = new_table()
    for entries in workload():
        read = [table.embeddings[ids] for ids, _ in entries]
        for (ids, noise), values in zip(entries, read):
            table.apply_entry(ids, noise + values, LEARNING_RATE)
    return np.array(table.records)[:, : DIM + 1]


def train(memory, policy, slots, host_read, lookahead, mode, value_path):
    table, steps = new_table(), workload()
    config = EngineConfig(65, lookahead=lookahead, mode=mode, value_path=value_path,
                          horizon=lookahead - 1 if policy == "next_use" else 0)
    caches = [make_policy(policy, slots, ROWS, np.arange(ROWS))] if slots else []
    with Engine(table.records, DIM, _native.RowAdagradUpdate(LEARNING_RATE), config, caches) as engine:
        reader, _ = open_reader(table, 65, memory, host_read)
        rows = DeviceRows(table, engine.port(0), LEARNING_RATE, slots, 65, memory, reader)
        announced = 0
        for step, entries in enumerate(steps):
            while announced < min(STEPS, step + lookahead + 1):
                rows.announce(announced, np.unique(np.concatenate([ids for ids, _ in steps[announced]])))
                announced += 1
            used = np.unique(np.concatenate([ids for ids, _ in entries]))
            values = memory.get(rows.begin(step))[:, :DIM]
            device_entries = []
            for entry, (ids, noise) in enumerate(entries):
                u = np.searchsorted(used, ids)
                gradients, order = noise + values[u], np.argsort(u, kind="stable").astype(np.int32)
                offset = np.searchsorted(u[order], np.arange(len(used) + 1)).astype(np.int32)
                if entry == 0:  # as they lie, without an order
                    gradients, order = gradients[order], None
                device_entries.append((memory.put(gradients), memory.put(offset),
                                       None if order is None else memory.put(order)))
            rows.end(device_entries)
            if step == STEPS // 2:
                rows.drain()
        rows.drain()
    return np.array(table.records)[:, : DIM + 1]


@pytest.mark.parametrize("host_read", ["uva", "copy"])
@pytest.mark.parametrize("slots", [0, 4, 20, ROWS])
@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_no_setting_changes_a_bit(memory, expected, policy, slots, host_read):
    for lookahead, mode in ((1, "p2f"), (10, "p2f"), (10, "sync")):
        result = train(memory, policy, slots, host_read, lookahead, mode, "staging")
        np.testing.assert_array_equal(result, expected, err_msg=f"lookahead {lookahead} {mode}")


def test_values_may_go_straight_to_the_host_rows(memory, expected):
    for slots in (0, 20):
        np.testing.assert_array_equal(train(memory, "lru", slots, "uva", 10, "p2f", "host_row"), expected)
