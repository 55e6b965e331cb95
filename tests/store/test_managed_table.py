"""Tables in memory of the CUDA driver, which a GPU reads and writes over the bus."""
import os

import numpy as np
import pytest
import torch

from dglke_frugal import Embedding, _native, optim
from dglke_frugal.embedding import CacheConfig, Uniform
from dglke_frugal.embedding.table import FORKED_FROM_DEVICE


def test_a_table_of_the_driver_is_refused_where_there_is_none():
    if _native.has_managed_memory():
        table = _native.HostTable(5, 3, managed=True)
        assert table.is_managed and not table.records.any()
    else:
        with pytest.raises(_native.DeviceError, match="CUDA"):
            _native.HostTable(5, 3, managed=True)
    assert not _native.HostTable(5, 3).is_managed


@pytest.mark.cuda
def test_start_values_are_those_of_any_table():
    tables = [_native.HostTable(70_000, 5, managed=managed) for managed in (False, True)]
    assert tables[1].is_managed and not tables[1].records.any() and tables[1].path == ""
    for table in tables:
        table.init_uniform(-1, 1, 3, 0)
    np.testing.assert_array_equal(tables[0].records, tables[1].records)


@pytest.mark.cuda
@pytest.mark.parametrize("cache, managed", [(CacheConfig(cache_ratio=0.1), True),
                                            (CacheConfig(cache_ratio=0.1, flush="p2f"), False),
                                            (CacheConfig(flush="none"), False)])
def test_the_table_of_one_process_that_a_gpu_updates_itself_is_managed(cache, managed):
    module = Embedding(5000, 8, optim.SGD(0.5), device="cuda", cache=cache, init=Uniform(-1, 1))
    before, ids = module.weight.clone(), torch.arange(0, 5000, 7)
    assert module._table.rows.is_managed == managed
    module(ids).backward(torch.ones(len(ids), 8, device="cuda"))
    before[ids] -= 0.5
    assert torch.equal(module.weight, before)


@pytest.mark.cuda
def test_a_forked_process_is_told_that_it_lacks_the_table():
    module = Embedding(500, 8, optim.SGD(0.5), device="cuda")
    module(torch.arange(5))
    module.close()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            module.weight
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == FORKED_FROM_DEVICE
    os.waitpid(child, 0)
