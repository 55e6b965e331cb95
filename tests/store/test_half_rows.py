"""Rows in half precision against numpy, which shares nothing with them (half_precision_oracle.py)."""

import numpy as np
import pytest
from half_precision_oracle import DIGITS, LEAST, noise, rounded

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.store import EmbeddingStore
from dglke_frugal.store.rows.half_embeddings import HalfEmbeddings, Rounding

def mean_square(gradient):
    """Of one row, by the store's own update of a table of floats, whose order of sums is tested elsewhere."""
    table = _native.HostTable(1, len(gradient))
    table.apply_entry(np.zeros(1, np.int64), gradient[None], 0.0)
    return table.state[0]


class Oracle:
    """Row-wise Adagrad in float32, with one rounding at the end of a row's step."""

    def __init__(self, table, state, seed, number):
        self.table, self.state, self.seed, self.number = table, state, seed, number

    def step(self, step, entries, learning_rate):
        ids = np.unique(np.concatenate([ids for ids, _ in entries]))
        rows = self.table[ids].copy()
        for which, gradients in entries:
            places = np.searchsorted(ids, which)
            for row, gradient in zip(which, gradients):
                self.state[row] += mean_square(gradient)
            for place, row, gradient in zip(places, which, gradients):
                deviation = np.sqrt(self.state[row]) + np.float32(1e-10)
                rows[place] += np.float32(-learning_rate) * gradient / deviation
        for row, values in zip(ids, rows):
            self.table[row] = rounded(values, noise(self.seed, self.number, step, int(row), len(values)))


def entries_of(rng, rows, dim):
    scale = 10.0 ** rng.integers(-4, 1)
    return [(rng.integers(0, rows, size), (scale * rng.normal(size=(size, dim))).astype(np.float32)) for size in (9, 6)]


@pytest.mark.parametrize("dim", [1, 7, 50, 256, 400, 601])
def test_a_step_computes_in_floats_and_rounds_once(dim):
    seed, table, rows, first = 2**40 + 17, 3, 23, 5
    store = EmbeddingStore(rows, dim, 0.1, rounding=Rounding("fp16", seed, table))
    store.init_uniform(0.5, 1, 0)
    oracle = Oracle(store.embeddings[:], np.zeros(rows, np.float32), seed, table)
    rng = np.random.default_rng(dim)
    for step in range(first, first + 4):
        entries = entries_of(rng, rows, dim)
        store.steps.announce(step, np.unique(np.concatenate([ids for ids, _ in entries])))
        store.begin(step)
        store.apply(entries)
        oracle.step(step, entries, 0.1)
        np.testing.assert_array_equal(store.embeddings[:], oracle.table, err_msg=f"step {step}")
        np.testing.assert_array_equal(store.state, oracle.state)


def test_start_values_are_the_nearest_half_precision():
    store, plain = EmbeddingStore(40, 33, 0.1, rounding=Rounding("fp16", 1, 0)), EmbeddingStore(40, 33, 0.1)
    for each in (store, plain):
        each.init_uniform(0.5, 7, 2)
    half, floats = store.embeddings[:], plain.embeddings.astype(np.float64)
    unit = 2.0 ** (np.maximum(np.frexp(floats)[1] - 1, LEAST) - DIGITS)
    assert (np.abs(half - floats) <= unit / 2).all() and (half != floats).any()
    np.testing.assert_array_equal(store.stored, plain.embeddings.astype(np.float16))


def test_a_small_update_moves_rows_in_expectation():
    """An update of a fiftieth of the distance of numbers in half precision, which rounding to nearest would lose every
    time."""
    rows, dim, start = 4000, 64, 0.25
    unit = start * 2.0 ** -DIGITS
    found = []
    for seed in (1, 2):
        store = EmbeddingStore(rows, dim, unit / 50, rounding=Rounding("fp16", seed, 0))
        store.embeddings[:] = np.full(dim, start, np.float32)
        everything = np.arange(rows)
        for step in range(3):
            store.steps.announce(step, everything)
            store.begin(step)
            store.apply([(everything, np.full((rows, dim), -1, np.float32))])
        found.append(store.embeddings[:])
    assert (found[0] != found[1]).any()
    for table in found:
        moved = (table.astype(np.float64) - start) / unit
        assert set(np.unique(moved)) <= {0.0, 1.0, 2.0, 3.0}
        expected = sum(1 / np.sqrt(step + 1) for step in range(3)) / 50  # Adagrad's steps, of gradients of one size
        error = np.sqrt(expected / table.size)
        assert abs(moved.mean() - expected) < 5 * error


def test_a_step_reads_what_it_has_written_in_floats():
    store = EmbeddingStore(2, 4, 2.0**-13, rounding=Rounding("fp16", 1, 0))
    store.embeddings[:] = np.ones(4, np.float32)
    store.steps.announce(0, np.arange(2))
    store.begin(0)
    ids = np.zeros(1, np.int64)
    store.steps.apply_entry(ids, np.ones((1, 4), np.float32), 2.0**-13)
    np.testing.assert_array_equal(store.gather(ids), np.full((1, 4), 1 - 2.0**-13, np.float32))  # no half is that
    store.steps.end()


def test_files_are_float32_and_come_back_as_they_were(tmp_path):
    store = EmbeddingStore(100, 33, 0.1, rounding=Rounding("fp16", 1, 0))
    store.init_uniform(0.5, 1, 0)
    store.save(tmp_path / "rows.npy")
    saved = np.load(tmp_path / "rows.npy")
    assert saved.dtype == np.float32
    np.testing.assert_array_equal(saved, store.embeddings[:])
    again = EmbeddingStore(100, 33, 0.1, rounding=Rounding("fp16", 2, 0))
    again.load(tmp_path / "rows.npy")
    np.testing.assert_array_equal(again.stored, store.stored)
    assert store.nbytes == 100 * 128  # 17 floats with the state, in one line; in float32 two lines


def test_float32_is_what_others_see():
    store = EmbeddingStore(50, 6, 0.1, rounding=Rounding("fp16", 1, 0))
    rows = store.embeddings
    assert isinstance(rows, HalfEmbeddings) and rows.shape == (50, 6) and len(rows) == 50
    rows[10:20] = np.arange(60, dtype=np.float32).reshape(10, 6)
    np.testing.assert_array_equal(rows[12:14], np.arange(12, 24, dtype=np.float32).reshape(2, 6))
    np.testing.assert_array_equal(rows[[19, 10]], np.array([np.arange(54, 60), np.arange(6)], np.float32))
    np.testing.assert_array_equal(store.gather(np.array([11])), np.arange(6, 12, dtype=np.float32)[None])
    values = np.random.default_rng(3).normal(size=(3, 6)).astype(np.float32) * [[1], [1e-7], [1e9]]
    rows[[40, 7, 23]] = values
    for row, value in zip((41, 8, 24), values):
        rows[row : row + 1] = value
    np.testing.assert_array_equal(rows[[40, 7, 23]], rows[[41, 8, 24]])
    assert rows[60:70].shape == (0, 6)
    with pytest.raises(IndexError):
        rows[[50]]
    with pytest.raises(IndexError, match="neighbours"):
        rows[::2]


def test_half_precision_rows_are_not_taken_for_floats():
    table = _native.HostTable(5, 8, element="fp16")
    ids, values = np.arange(2), np.ones((2, 8), np.float32)
    for wrong in (lambda: table.embeddings, lambda: table.apply_entry(ids, values, 0.1),
                  lambda: _native.gather_ids(table, ids, values)):
        with pytest.raises(ValueError, match="in half precision"):
            wrong()
    rows = _native.DirectRows(table)
    rows.announce(0, ids)
    rows.begin(0)
    with pytest.raises(ValueError, match="in half precision"):
        rows.gather(ids, values)
    with pytest.raises(ValueError, match="not in half precision"):
        _native.StochasticRoundedRows(_native.DirectRows(_native.HostTable(5, 8)), 1, 0)
    with pytest.raises(ValueError, match="fp16, fp32"):
        _native.HostTable(5, 8, element="fp8")
    store = EmbeddingStore(5, 8, 0.1, rounding=Rounding("fp16", 1, 0))
    with pytest.raises((ValueError, RuntimeError, InputError)):
        store.apply([(ids, values)])  # outside of a step there is no step to round by
