"""Mean squares next to an update: the bits of the update's own, and what an update does with given ones."""
import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal._native import RowTable
from dglke_frugal.store.device.plan_kernels import TO_HOST_ROW, update_tables


def gradients_of(rows, dim):
    return np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [1, 7, 12, 50, 200, 401])
def test_they_are_those_of_row_wise_adagrad(machine, dim):
    gradients = gradients_of(70, dim)
    means = machine.put(np.zeros(70, np.float32))
    _native.mean_squares(machine.put(gradients), means, machine.stream)
    states = np.empty(70, np.float32)
    _native.HostTable(70, dim).accumulate_entry(np.arange(70), gradients, states)
    np.testing.assert_array_equal(machine.get(means), states)


@pytest.mark.parametrize("ranks", [0, 1, 2, 3, 8])
def test_an_update_takes_those_that_it_is_given(machine, ranks):
    """One for each gradient, or (ranks, n): over the columns of each rank, of which it takes the mean in their
    order."""
    rows, dim = 40, 24
    gradients, order = gradients_of(100, dim), np.random.default_rng(1).permutation(100).astype(np.int32)
    offset = np.sort(np.append(np.random.default_rng(2).integers(0, 101, rows - 1), [0, 100])).astype(np.int32)
    given = means = np.random.default_rng(3).uniform(1, 2, 100).astype(np.float32)
    if ranks:
        given = np.random.default_rng(3).uniform(1, 2, (ranks, 128)).astype(np.float32)
        means = given[0, :100].copy()
        for part in given[1:, :100]:
            means += part
        means /= np.float32(ranks)
    given = machine.put(given)
    table = _native.HostTable(rows, dim)
    table.init_uniform(-1, 1, 0, 0)
    start = np.array(table.records)
    shared = machine.shared(table)
    entry = machine.put(gradients), machine.put(offset), machine.put(order), given[:, :100] if ranks else given
    update_tables([(RowTable(dim, shared), machine.put(np.full(rows, TO_HOST_ROW, np.uint8)),
                    machine.put(np.arange(rows)), machine.put(start), [entry])], 0.1, machine.stream)
    machine.get(machine.put(means))  # waits
    state, row = np.zeros(rows, np.float32), start[:, :dim].copy()
    for u in range(rows):
        occurrences = order[offset[u] : offset[u + 1]]
        for i in occurrences:
            state[u] += means[i]
        for i in occurrences:
            row[u] += np.float32(-0.1) * gradients[i] / (np.sqrt(state[u]) + np.float32(1e-10))
    np.testing.assert_array_equal(table.state, state)
    np.testing.assert_array_equal(table.embeddings, row)
