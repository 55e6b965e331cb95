"""A table that does not fit into memory is refused before it takes any."""
import copy
import resource

import pytest

from dglke_frugal import Embedding, available_memory, optim
from dglke_frugal.embedding import CacheConfig, table
from dglke_frugal.errors import InputError
from embedding.forked import in_a_fork

MB = 1_000_000
BY_KEY = {"embedding_dim": 31, "optimizer": optim.SGD(0.1), "keys": "int64"}


def make(rows, optimizer=optim.SGD(0.1), **settings):
    return Embedding(rows, 32, optimizer, **settings)


# Rows of 128 bytes, or of 256 where 32 numbers of state lie behind as many of an embedding.
@pytest.mark.parametrize("fits, does_not, free", [
    (lambda: make(10_000), lambda: make(10_001), 1_280_000),
    (lambda: make(5_000, optim.Adagrad(0.1)), lambda: make(5_001, optim.Adagrad(0.1)), 1_280_000),
    (lambda: make(5_000, cache=CacheConfig(cache_ratio=1.0)), lambda: make(5_001, cache=CacheConfig(cache_ratio=1.0)),
     1_280_000),
    (lambda: Embedding(capacity=8_000, **BY_KEY), lambda: Embedding(capacity=8_001, **BY_KEY), 1_280_000)],
    ids=["rows", "state", "cache", "keys"])
def test_a_table_is_refused_that_needs_more_than_there_is(fits, does_not, free, monkeypatch):
    monkeypatch.setattr(available_memory, "free_host_bytes", lambda: free + table.BESIDES_BYTES)
    module = fits()
    with pytest.raises(InputError, match="of host memory, but this process can have"):
        does_not()
    monkeypatch.setattr(available_memory, "free_host_bytes", lambda: table.BESIDES_BYTES)
    with pytest.raises(InputError, match="fewer rows"):
        copy.deepcopy(module)
    monkeypatch.setattr(available_memory, "free_host_bytes", lambda: None)
    does_not()


@pytest.mark.parametrize("rows, dim", [(2**60, 64), (2**70, 1), (2, 2**62)])
def test_sizes_beyond_64_bits_are_refused(rows, dim):
    with pytest.raises(InputError, match="of host memory"):
        Embedding(rows, dim, optim.SGD(0.1))


@pytest.mark.parametrize("limit, used", [(resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")])
def test_a_limit_of_the_process_is_reported(limit, used):
    def make_under_limit():
        taken = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(used))
        resource.setrlimit(limit, (taken + 400 * MB, taken + 400 * MB))
        make(100)
        make(6 * MB)
        return "no word of it"

    assert in_a_fork(make_under_limit).startswith("InputError: a table of 6,000,000 rows of 32 numbers (embedding and "
                                                  "optimizer state) needs 0.84 GB of host memory, but this process can")
