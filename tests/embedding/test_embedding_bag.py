"""Bags against torch.nn.EmbeddingBag and against the plain sums that the documentation promises."""
import numpy as np
import pytest
import torch
from devices import CUDA
from hypothesis import HealthCheck, given, settings, strategies as st

from dglke_frugal import optim
from dglke_frugal.embedding import CacheConfig, EmbeddingBag, Uniform
from embedding.plain import PlainTable

ROWS, DIM = 30, 7
bags = st.lists(st.lists(st.integers(0, ROWS - 1), max_size=5), min_size=1, max_size=6)


def make(mode, optimizer=optim.SGD(0.5), **settings_):
    return EmbeddingBag(ROWS, DIM, optimizer, mode=mode, init=Uniform(-1, 1), **settings_)


def flat(listed):
    offsets = np.cumsum([0, *map(len, listed)])[:-1]
    return torch.tensor([i for bag in listed for i in bag], dtype=torch.long), torch.from_numpy(offsets)


def in_order(rows):
    total = torch.zeros(DIM)
    for row in rows:
        total += row
    return total


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_have_the_bits_of_a_plain_loop(mode, device):
    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(bags, max_size=5), ratio=st.sampled_from([0.0, 0.4, 1.0]),
           flush=st.sampled_from(["p2f", "none"]))
    def every_setting(steps, ratio, flush):
        optimizer = optim.RowwiseAdagrad(0.1)
        module = make(mode, optimizer, device=device, cache=CacheConfig(cache_ratio=ratio, flush=flush))
        plain = PlainTable(module.weight, optimizer)
        for listed in steps:
            ids, offsets = flat(listed)
            values = module(ids, offsets)
            counts = torch.tensor([max(1, len(bag)) for bag in listed])[:, None] if mode == "mean" else torch.ones(1)
            expected = torch.stack([in_order(torch.from_numpy(plain.weight[bag])) for bag in listed]) / counts
            assert torch.equal(values.detach().cpu(), expected)
            gradient = torch.randn(len(listed), DIM, generator=torch.Generator().manual_seed(len(ids)))
            learn = module.learn if len(ids) % 2 else torch.Tensor.backward
            learn(values, gradient.to(values.device))
            plain.update(ids, torch.repeat_interleave(gradient / counts, torch.tensor([len(b) for b in listed]), 0))
        np.testing.assert_array_equal(module.weight.numpy(), plain.weight)
        module.close()

    every_setting()


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("last", [False, True])
def test_bags_equal_torch(mode, padding, last):
    ours = make(mode, padding_idx=padding, include_last_offset=last)
    theirs = torch.nn.EmbeddingBag(ROWS, DIM, mode=mode, padding_idx=padding, include_last_offset=last, sparse=True)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    ids, offsets = flat([[3, 4, 3, 3], [], [5, 4, 29], [3]])
    offsets = torch.cat([offsets, torch.tensor([len(ids)])]) if last else offsets
    for _ in range(3):
        a, b = ours(ids, offsets), theirs(ids, offsets)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
        optimizer.zero_grad()
        a.pow(2).sum().backward()
        b.pow(2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight.detach(), rtol=1e-6, atol=1e-6)


def test_ids_of_two_dimensions_are_a_bag_per_row():
    module = make("sum")
    ids = torch.tensor([[1, 2], [3, 1]])
    assert torch.equal(module(ids), module(ids.reshape(-1), torch.tensor([0, 2])))


def test_weights_of_samples_get_gradients_and_weigh_the_rows():
    ours = make("sum")
    table = ours.weight.clone().requires_grad_()
    weights = [torch.tensor([0.5, 2.0, -1.0], requires_grad=True) for _ in range(2)]
    ids, offsets = torch.tensor([4, 4, 9]), torch.tensor([0, 2])
    a = ours(ids, offsets, weights[0])
    b = torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights[1])
    torch.testing.assert_close(a, b)
    a.pow(2).sum().backward()
    b.pow(2).sum().backward()
    torch.testing.assert_close(weights[0].grad, weights[1].grad)
    torch.testing.assert_close(ours.weight, table.detach() - 0.5 * table.grad)


def test_weights_of_padding_are_left_out_with_it():
    module = make("sum", padding_idx=4)
    weights = torch.tensor([[float("nan"), 2.0]], requires_grad=True)
    sums = module(torch.tensor([[4, 9]]), per_sample_weights=weights)
    torch.testing.assert_close(sums, 2 * module.weight[9:10])
    sums.sum().backward()
    assert weights.grad[0, 0] == 0 and weights.grad[0, 1] != 0


@pytest.mark.parametrize("wrong, sentence", [
    (lambda: make("max"), "sum or mean"),
    (lambda: make("sum")(torch.tensor([1])), "offsets"),
    (lambda: make("sum")(torch.tensor([[1]]), torch.tensor([0])), "one dimension"),
    (lambda: make("sum")(torch.tensor([1, 2]), torch.tensor([1])), "begin with 0"),
    (lambda: make("sum")(torch.tensor([1, 2]), torch.tensor([0, 3])), "stay within"),
    (lambda: make("mean")(torch.tensor([[1]]), None, torch.ones(1, 1)), "mode='sum'")])
def test_what_makes_no_sense_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()
