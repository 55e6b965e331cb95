"""Several processes train one table, and it is what one loop over all of them would have made."""
import copy
import multiprocessing
import queue
import threading

import numpy as np
import pytest
import torch
from devices import make_device

from dglke_frugal import optim
from dglke_frugal.embedding import CacheConfig, Constant, Embedding, Lookahead, Uniform
from dglke_frugal.embedding.table import Table
from embedding.plain import PlainTable, with_rate

ROWS, DIM, STEPS, SIZE = 60, 9, 15, 12
OPTIMIZERS = {"SGD": optim.SGD(0.1), "RowwiseAdagrad": optim.RowwiseAdagrad(0.1), "Adagrad": optim.Adagrad(0.1),
              "Adam": optim.Adam(0.1), "RowwiseAdam": optim.RowwiseAdam(0.1, clip=2.0)}


def batch(step, rank):
    """Ids that ranks partly share, with repetitions; now and then none."""
    count = 0 if (step + rank) % 6 == 5 else SIZE
    return torch.randint(ROWS // 2, (count,), generator=torch.Generator().manual_seed(100 * step + rank)) + 5 * rank


def noise(step, rank, shape):
    return torch.from_numpy(np.random.default_rng((step, rank)).standard_normal(shape, np.float32))


def skips(step, rank):
    """Whether the gradient of a lookup never comes: on all ranks, or on one of them, which hears of it only when the
    next lookup ends the step, behind the change of the learning rate."""
    return step == 7 or (step, rank) in ((4, 0), (9, 1))


def train(module, rank, ahead):
    batches = [batch(step, rank) for step in range(STEPS)]
    for step, ids in enumerate(Lookahead(batches, lambda each: {module: each}, ahead) if ahead else batches):
        module.learning_rate = 0.1 / (1 + step)  # all ranks change it alike
        values = module(ids)
        if not skips(step, rank):
            values.backward(noise(step, rank, values.shape) + values.detach())


def other_rank(address, rank, name, cache, ahead, results, device="cpu"):
    try:
        module = Embedding.attach(address, rank, copy.deepcopy(OPTIMIZERS[name]), cache, device=device)
        train(module, rank, ahead)
        seen = module.weight.clone().numpy()
        module.close()
        results.put((rank, seen))
    except BaseException as error:
        results.put((rank, repr(error)))
        raise


def in_order(weight, optimizer, ranks):
    """Each rank's sum per row, the ranks' sums in order, one update per row."""
    plain = PlainTable(weight, optimizer)
    for step in range(STEPS):
        plain.optimizer = with_rate(optimizer, 0.1 / (1 + step))
        ids = [batch(step, rank) for rank in range(ranks)]
        gradients = [torch.zeros(len(ids[rank]), DIM) if skips(step, rank) else
                     noise(step, rank, (len(ids[rank]), DIM)) + plain.read(ids[rank]) for rank in range(ranks)]
        rows, sums = [], []
        for own, gradient in zip(ids, gradients):
            for row in own.unique().tolist():
                total = torch.zeros(DIM)
                for k in (own == row).nonzero().flatten().tolist():
                    total = total + gradient[k]
                rows.append(row)
                sums.append(total)
        plain.update(torch.tensor(rows, dtype=torch.int64), torch.stack(sums) if sums else torch.zeros(0, DIM))
    return plain


def train_with(others, module, ahead, plain, results):
    """Train as rank 0 while `others` do; all see the table of one loop afterwards."""
    for other in others:
        other.start()
    train(module, 0, ahead)
    trained = {key: values.clone() for key, values in module.state_dict().items()}
    module.close()
    if others:
        with pytest.raises(RuntimeError, match="closed it, and it can only be read"):
            module(torch.tensor([1]))
        with torch.no_grad():
            assert torch.equal(module(torch.tensor([1])), trained["weight"][1:2].to(module.handle.device))
    np.testing.assert_array_equal(trained["weight"].numpy(), plain.weight)
    if "optimizer_state" in trained:
        np.testing.assert_array_equal(trained["optimizer_state"].numpy(), plain.state)
    for _ in others:
        rank, seen = results.get(timeout=180)
        assert not isinstance(seen, str), (rank, seen)
        np.testing.assert_array_equal(seen, plain.weight)


@pytest.mark.parametrize("ranks, name, settings, ahead, processes", [
    (1, "Adagrad", {"cache_ratio": 0.3}, 3, False), (2, "SGD", {"cache_ratio": 0.0}, 0, False),
    (2, "RowwiseAdagrad", {"cache_ratio": 0.3}, 4, True),
    (2, "Adagrad", {"cache_ratio": 0.5, "flush": "sync", "lookahead": 2}, 3, False),
    (4, "RowwiseAdagrad", {"cache_ratio": 0.2, "cache_policy": "lfu", "flush_threads": 1}, 2, False),
    (2, "Adam", {"cache_ratio": 0.3}, 4, True), (4, "RowwiseAdam", {"cache_ratio": 0.2, "lookahead": 1}, 2, False),
    (4, "SGD", {"cache_ratio": 1.0, "hot_ids": range(ROWS), "lookahead": 1}, 1, False)])
def test_ranks_train_the_table_of_one_loop(ranks, name, settings, ahead, processes):
    """Ranks are processes, or for speed threads, each with an engine client of its own all the same."""
    cache = CacheConfig(ranks=ranks, max_rows=SIZE, **settings)
    module = Embedding(ROWS, DIM, copy.deepcopy(OPTIMIZERS[name]), cache=cache, init=Uniform(-1, 1))
    plain = in_order(module.weight.clone(), OPTIMIZERS[name], ranks)
    context = multiprocessing.get_context("spawn")
    results = context.Queue() if processes else queue.Queue()
    make = context.Process if processes else threading.Thread
    others = [make(target=other_rank, daemon=True, args=(module.address, rank, name, cache, ahead, results))
              for rank in range(1, ranks)]
    train_with(others, module, ahead, plain, results)
    for other in others:
        other.join(60)
        assert not other.is_alive()


@pytest.mark.parametrize("ranks, name, kinds, settings, ahead", [
    (2, "SGD", ["cpu", "cpu"], {"cache_ratio": 0.0}, 0),
    (2, "RowwiseAdagrad", ["queued", "queued"], {"cache_ratio": 0.3}, 3),
    (3, "Adam", ["queued", "cpu", "queued"], {"cache_ratio": 0.5, "cache_policy": "lfu"}, 2),
    (2, "Adagrad", ["queued", "queued"], {"cache_ratio": 0.3, "flush": "sync"}, 1),
    (4, "RowwiseAdam", ["queued"] * 4, {"cache_ratio": 1.0, "hot_ids": range(ROWS), "lookahead": 2}, 5)])
def test_ranks_with_a_device_each_train_the_table_of_one_loop(ranks, name, kinds, settings, ahead):
    """Rows cross between devices through host memory, by flush threads."""
    cache = CacheConfig(ranks=ranks, max_rows=SIZE, **settings)
    module = Embedding(ROWS, DIM, copy.deepcopy(OPTIMIZERS[name]), cache=cache, init=Uniform(-1, 1),
                       device=make_device(kinds[0]))
    plain = in_order(module.weight.clone(), OPTIMIZERS[name], ranks)
    results = queue.Queue()
    with pytest.raises(ValueError, match="all ranks of a table"):
        Embedding.attach(module.address, 1, optim.SGD(0.1), cache)
    others = [threading.Thread(target=other_rank, daemon=True, args=(
        module.address, rank, name, cache, ahead, results, make_device(kinds[rank]))) for rank in range(1, ranks)]
    train_with(others, module, ahead, plain, results)


def test_what_ranks_cannot_do_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="max_rows"):
        CacheConfig(ranks=2)
    with pytest.raises(ValueError, match="one process"):
        Embedding(ROWS, DIM, optim.SGD(0.1)).address
    cache = CacheConfig(ranks=2, max_rows=3)
    with pytest.raises(ValueError, match="by key"):
        Embedding(embedding_dim=DIM, optimizer=optim.SGD(0.1), keys="int64", capacity=5, cache=cache)
    module = Embedding(ROWS, DIM, optim.SGD(0.1), cache=cache)
    assert module.address.rows == ROWS
    for change in (module.reset_parameters, lambda: module.load("x.npy"), lambda: module.load_state_dict({})):
        with pytest.raises(RuntimeError, match="before they attach"):
            change()
    with pytest.raises(ValueError, match="max_rows=3"):
        module(torch.arange(4))


@pytest.mark.parametrize("how", ["read", "save", "state_dict"])
def test_what_a_rank_reads_is_of_one_step_though_others_are_ready_to_go_on(how, tmp_path, monkeypatch):
    """Rank 0 is slow between the moment when all updates are there and its reading."""
    cache = CacheConfig(ranks=2, max_rows=SIZE, cache_ratio=0.0)
    table = Embedding(ROWS, DIM, optim.SGD(1.0), cache=cache, init=Constant(0))
    goes_on, drain = threading.Event(), Table.drain

    def drain_and_be_slow(self):
        drain(self)
        if self is table._table and ready.is_set():
            ready.clear()
            goes_on.wait(1.0)

    def read(module):
        if how == "state_dict":
            return module.state_dict()["weight"].clone()
        if how == "save":
            file = tmp_path / f"{id(module)}.npy"
            module.save(file)
            return torch.from_numpy(np.load(file))
        with torch.no_grad():
            return module(torch.arange(ROWS))

    def steps(module, rank, first, last):
        for step in range(first, last):
            if step == 0:
                for each in range(5):
                    module.prefetch(batch(each, rank))
            module(batch(step, rank)).sum().backward()

    def other(address):
        module = Embedding.attach(address, 1, optim.SGD(1.0), cache)
        steps(module, 1, 0, 3)
        read(module)
        steps(module, 1, 3, 5)
        goes_on.set()
        module.close()

    ready = threading.Event()
    monkeypatch.setattr(Table, "drain", drain_and_be_slow)
    thread = threading.Thread(target=other, args=(table.address,), daemon=True)
    thread.start()
    steps(table, 0, 0, 3)
    ready.set()
    found = read(table)
    steps(table, 0, 3, 5)
    table.close()
    thread.join(60)
    ids = torch.cat([batch(step, rank) for step in range(3) for rank in range(2)])
    assert torch.equal(found[:, 0], -torch.bincount(ids, minlength=ROWS).float())
