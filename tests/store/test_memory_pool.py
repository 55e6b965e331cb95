"""Memory that is used again is never that of an array which somebody still has."""
import gc

import numpy as np
import torch

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import Lookahead, module
from dglke_frugal.store.memory_pool import MemoryPool


def test_memory_is_given_out_again_when_its_array_has_gone():
    made = []

    def make(size):
        made.append(size)
        return torch.zeros(size, dtype=torch.uint8)

    pool = MemoryPool(make)
    first, second = pool.array(10, np.int64), pool.array(5, np.int64)
    assert first.shape == (10,) and first.dtype == np.int64 and not np.shares_memory(first, second)
    place = first.ctypes.data
    del first
    gc.collect()
    again = pool.array(7, np.int64)
    assert again.ctypes.data == place and again.shape == (7,) and made == [80, 40]
    del again
    gc.collect()
    assert len(pool.array(11, np.int64)) == 11 and made == [80, 40, 88]  # what is too small goes


def test_many_ids_are_looked_up_as_few_are(monkeypatch):
    monkeypatch.setattr(module, "MANY_IDS", 1)
    batches = [torch.randint(0, 50, (200,), generator=torch.Generator().manual_seed(seed)) for seed in range(12)]

    def trained(lookahead):
        embedding = Embedding(50, 3, optim.SGD(0.5), seed=1)
        for ids in Lookahead(batches, lambda ids: {embedding: ids}, lookahead):
            rows = embedding(ids)
            embedding.learn(rows, rows.detach() + 1)
        return embedding.weight.clone()

    expected = trained(1)
    assert torch.equal(trained(5), expected)
    monkeypatch.setattr(module, "MANY_IDS", 1 << 30)
    assert torch.equal(trained(3), expected)
