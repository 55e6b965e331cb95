"""Lookups on PyTorch's threads: the same bits with any number of them, and in a forked process, which has none."""
import os

import pytest
import torch

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import CacheConfig, Uniform

ROWS, DIM = 3000, 32


def trained(cache):
    """Rows after three lookups of many tasks each, as bits."""
    module = Embedding(ROWS, DIM, optim.RowwiseAdagrad(0.1), cache=cache, init=Uniform(-1, 1), seed=1)
    random = torch.Generator().manual_seed(2)
    for _ in range(3):
        ids = torch.randint(ROWS, (5000,), generator=random)
        module(ids).backward(torch.randn(5000, DIM, generator=random))
    module.close()
    return module.weight.contiguous().view(torch.int32).clone()


@pytest.mark.parametrize("cache", [CacheConfig(flush="none"), CacheConfig(cache_ratio=0.1)], ids=["in place", "p2f"])
def test_any_number_of_threads_gives_the_same_bits(cache):
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(trained(cache))
    finally:
        torch.set_num_threads(threads)
    for each in results[1:]:
        assert torch.equal(each, results[0])


def test_a_forked_process_looks_up_on_threads_of_its_own():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    expected = trained(CacheConfig(flush="none"))  # on threads that a child will not have
    module = Embedding(ROWS, DIM, optim.SGD(0.1), cache=CacheConfig(flush="none"), init=Uniform(-1, 1))
    ids, gradient = torch.arange(ROWS), torch.ones(ROWS, DIM)
    module(ids)
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # of torch's own loops, which cannot run there; ours run on our pool
        values, ticket, _ = module._read(ids)
        module._receive(ticket, gradient, None)
        os._exit(0 if values.shape == gradient.shape else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(trained(CacheConfig(flush="none")), expected)
    torch.set_num_threads(threads)
