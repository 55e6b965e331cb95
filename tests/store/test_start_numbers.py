"""Start values of tables: the same bits for any number of threads and any part, and a bar where they take long."""
import numpy as np
import pytest
import torch

from dglke_frugal import _native
from dglke_frugal.embedding import Embedding
from dglke_frugal.optim import SGD
from dglke_frugal.store import start_numbers
from dglke_frugal.store.start_numbers import Normal, Uniform, Xavier

NUMBERS = [Uniform(-0.5, 2.0), Normal(0.25, 3.0), Xavier(2.0).of_table(3000, 33)]


@pytest.fixture
def threads():
    before = _native.num_threads()
    yield _native.set_num_threads
    _native.set_num_threads(before)


def filled(numbers, seed=3, stream=1, rows=3000, dim=33, **settings):
    table = _native.HostTable(rows, dim, **settings)
    table.records[:] = 7  # state and all
    numbers.fill(table, seed, stream)
    return table


@pytest.mark.parametrize("numbers", NUMBERS)
def test_bits_do_not_depend_on_threads_or_blocks(numbers, threads, monkeypatch):
    threads(1)
    expected = filled(numbers)
    assert not expected.state.any() and len(np.unique(expected.embeddings)) > 0.99 * expected.embeddings.size
    for count, block in ((2, 1 << 12), (5, 1 << 16), (16, 1 << 30)):
        threads(count)
        monkeypatch.setattr(start_numbers, "BLOCK_BYTES", block)
        np.testing.assert_array_equal(filled(numbers).embeddings, expected.embeddings)
    assert (filled(numbers, seed=4).embeddings != expected.embeddings).any()
    assert (filled(numbers, stream=2).embeddings != expected.embeddings).any()


@pytest.mark.parametrize("numbers", NUMBERS)
def test_a_row_has_the_numbers_of_its_key(numbers):
    keys = np.array([5, 2999, 0, 17])
    expected = filled(numbers, stream=0).embeddings[keys]
    np.testing.assert_array_equal(numbers.by_key(keys, 33, 3), expected)


def test_normal_numbers_have_their_mean_and_deviation():
    values = filled(Normal(0.25, 3.0), rows=20_000, dim=50).embeddings.astype(np.float64)
    assert values.mean() == pytest.approx(0.25, abs=0.02) and values.std() == pytest.approx(3.0, rel=0.01)
    standard = (values - 0.25) / 3
    assert (standard**3).mean() == pytest.approx(0, abs=0.02) and (standard**4).mean() == pytest.approx(3, rel=0.02)
    assert 4.5 < np.abs(standard).max() < 7


def test_xaviers_bound_is_that_of_the_whole_table():
    """torch.nn.init.xavier_uniform_ as a function would see a block of rows and take that for the table."""
    module = Embedding(100_000, 4, SGD(0.1), init=Xavier(3.0))
    bound = torch.nn.init.xavier_uniform_(torch.empty(100_000, 4), 3.0).abs().max()
    assert module.weight.abs().max() == pytest.approx(float(bound), rel=1e-3)
    keyed = Embedding(None, 4, SGD(0.1), keys="int64", capacity=100_000, init=Xavier(3.0))
    assert 0.5 * bound < keyed(torch.arange(50)).abs().max() <= 1.001 * bound


def test_rows_outside_of_the_table_are_refused():
    table = _native.HostTable(10, 3)
    for first, count in ((-1, 3), (0, 11), (10, 1), (11, -1)):
        with pytest.raises(ValueError, match="rows outside"):
            table.init_uniform(-1, 1, 0, 0, first=first, count=count)


def test_a_bar_shows_after_two_seconds_and_not_before(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("dglke_frugal.progress.time.monotonic", lambda: clock[0])
    table = _native.HostTable(10, 3)

    def fill(seconds):
        def fill_rows(first, count):
            clock[0] += seconds

        start_numbers.fill_in_blocks(table, fill_rows, rows_at_a_time=2)
        return capsys.readouterr().err

    assert fill(0.3) == ""
    assert fill(0.7) == "filling the table: 6 of 10 rows\n"
