"""Lookups on PyTorch's threads: the same bits with any number of them, from several threads of Python, and in a forked
process, which has none."""
import os

import pytest
import torch

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import CacheConfig, Constant, Uniform
from embedding.forked import in_a_fork
from threads import at_once, compute_with, threads_as_before

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
    """PyTorch's and the extension's own."""
    results = []
    with threads_as_before():
        for count in (1, 2, 5):
            compute_with(count)
            results.append(trained(cache))
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


@pytest.mark.parametrize("cache", [CacheConfig(flush="none"), CacheConfig(cache_ratio=0.1)], ids=["in place", "p2f"])
def test_threads_of_python_that_share_a_table_lose_no_update(cache):
    module = Embedding(50, 4, optim.SGD(1.0), cache=cache, init=Constant(0.0))

    def work(seed):
        random = torch.Generator().manual_seed(seed)
        for step in range(60):
            module(torch.randint(50, (7,), generator=random)).sum().backward()
            if step % 10 == 0:
                module.state_dict()
                with torch.no_grad():
                    module(torch.tensor([1]))

    at_once(work, 4)
    expected = torch.zeros(50)
    for seed in range(4):
        random = torch.Generator().manual_seed(seed)
        for _ in range(60):
            expected -= torch.bincount(torch.randint(50, (7,), generator=random), minlength=50)
    assert torch.equal(module.weight, expected[:, None].expand(50, 4))


@pytest.mark.parametrize("cache", [CacheConfig(flush="none"), CacheConfig(cache_ratio=0.1)], ids=["in place", "p2f"])
def test_a_forked_process_trains_a_table_of_its_own(cache):
    """In many tasks, for which the first process has started threads."""
    module = Embedding(ROWS, DIM, optim.SGD(1.0), cache=cache, init=Constant(0.0))
    ids = torch.arange(ROWS)

    def train():
        """What all rows have become."""
        module(ids).sum().backward()
        assert module.weight.min() == module.weight.max()
        return str(module.weight[0, 0].item())

    train()
    module.close()
    assert in_a_fork(train) == "-2.0"
    train()  # which ends with every update in host memory, too
    assert in_a_fork(train) == "-3.0"
    assert train() == "-3.0"


def test_a_fork_whose_table_lacks_updates_says_so_and_ends():
    module = Embedding(ROWS, DIM, optim.SGD(1.0), cache=CacheConfig(cache_ratio=0.1))
    module(torch.tensor([1])).sum().backward()
    for ids in (torch.tensor([2]), torch.tensor([3])):
        module.prefetch(ids)
    for act in (lambda: module(torch.tensor([2])), lambda: module.weight, module.close, module.state_dict):
        assert in_a_fork(act).startswith("RuntimeError: this process was forked while updates")
    assert in_a_fork(lambda: in_a_fork(lambda: str(module(torch.tensor([2]))))).startswith("RuntimeError: this process")
    assert in_a_fork(lambda: "done without it") == "done without it"
    module(torch.tensor([2])).sum().backward()  # goes on here
    module.discard_prefetched()
