"""The optimizers of rows against torch's own and plain formulas, schedules of their learning rate, and their state."""
import copy
import pickle
import warnings

import pytest
import torch
from devices import CUDA
from embedding.plain import STATE_FLOATS

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import CacheConfig, Uniform

ROWS, DIM = 30, 6
CACHES = pytest.mark.parametrize("cache", [None, CacheConfig(cache_ratio=0.3)], ids=["in place", "cached"])


def make(optimizer, **settings):
    return Embedding(ROWS, DIM, optimizer, init=Uniform(-1, 1), seed=2, **settings)


def losses(table, ids):
    """Something whose gradient depends on the rows."""
    rows = table(ids)
    return (rows * torch.arange(1.0, DIM + 1, device=rows.device)).sin().sum()


def batches(steps, most=ROWS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(ROWS, generator=generator)[:most] for _ in range(steps)]


def train(table, steps, **settings):
    for ids in batches(steps, **settings):
        losses(table, ids).backward()


def compared_with_torch(ours, make_theirs, ids_of_steps, sparse):
    """The weights of both after the same steps."""
    table = make(ours)
    theirs = torch.nn.Embedding(ROWS, DIM, sparse=sparse)
    with torch.no_grad():
        theirs.weight.copy_(table.weight)
    optimizer = make_theirs(theirs.parameters())
    for ids in ids_of_steps:
        losses(table, ids).backward()
        optimizer.zero_grad()
        losses(theirs, ids).backward()
        optimizer.step()
    return table.weight, theirs.weight.detach()


@pytest.mark.parametrize("ours, theirs, sparse", [
    (optim.Adam(0.05), lambda p: torch.optim.Adam(p, 0.05), False),
    (optim.Adam(0.02, (0.7, 0.95), 1e-4), lambda p: torch.optim.Adam(p, 0.02, (0.7, 0.95), 1e-4), False),
    (optim.Adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1), False),
    (optim.SGD(0.01), lambda p: torch.optim.SGD(p, 0.01), False)])
def test_they_are_torchs_where_each_step_uses_all_rows(ours, theirs, sparse):
    torch.testing.assert_close(*compared_with_torch(ours, theirs, batches(25), sparse), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ours, theirs", [
    (optim.Adam(0.05), lambda p: torch.optim.SparseAdam(p, 0.05)),
    (optim.Adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)), (optim.SGD(0.01), lambda p: torch.optim.SGD(p, 0.01))])
def test_they_are_torchs_for_sparse_gradients(ours, theirs):
    torch.testing.assert_close(*compared_with_torch(ours, theirs, batches(25, most=9), True), rtol=1e-4, atol=1e-5)


@CACHES
def test_row_wise_adam_is_fbgemms_formula(cache):
    table = make(optim.RowwiseAdam(0.05, (0.8, 0.99), 1e-6), cache=cache)
    weight, mean, square = table.weight.clone().double(), torch.zeros(ROWS, DIM).double(), torch.zeros(ROWS, 1).double()
    for number, ids in enumerate(batches(20, most=9), 1):
        rows = weight[ids].requires_grad_()
        (rows * torch.arange(1.0, DIM + 1)).sin().sum().backward()
        mean[ids] = 0.8 * mean[ids] + 0.2 * rows.grad
        square[ids] = 0.99 * square[ids] + 0.01 * rows.grad.pow(2).mean(1, keepdim=True)
        weight[ids] -= 0.05 * (mean[ids] / (1 - 0.8**number)) / ((square[ids] / (1 - 0.99**number)).sqrt() + 1e-6)
        losses(table, ids).backward()
    torch.testing.assert_close(table.weight.double(), weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@CACHES
def test_clip_scales_each_rows_sum_to_its_norm(cache, device):
    table = make(optim.SGD(1.0, clip=2.0), cache=cache, device=device)
    before, ids = table.weight.clone(), torch.tensor([3, 7, 3, 9])
    gradient = torch.zeros(4, DIM)
    gradient[:, 0] = torch.tensor([3.0, 1.5, 1.0, 0.0])  # 4, 1.5 and 0 by row
    table(ids).backward(gradient.to(device))
    moved = before - table.weight
    torch.testing.assert_close(moved[:, 0], torch.zeros(ROWS).index_put_((ids[:2],), torch.tensor([2.0, 1.5])))
    assert not moved[:, 1:].any()


SCHEDULES = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 7),
    "SequentialLR": lambda o: torch.optim.lr_scheduler.SequentialLR(o, [
        torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=3), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=30)}


@pytest.mark.parametrize("name", SCHEDULES)
def test_torchs_schedules_change_the_rate(name):
    """Rates, and with OneCycleLR betas, are those of torch's own optimizer under the same schedule."""
    ours = optim.Adam(0.05)
    table = make(ours)
    theirs = torch.nn.Embedding(ROWS, DIM)
    with torch.no_grad():
        theirs.weight.copy_(table.weight)
    optimizer = torch.optim.Adam(theirs.parameters(), 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The epoch parameter")  # torch's own, in SequentialLR
        schedules = [SCHEDULES[name](each) for each in (ours, optimizer)]
        seen = []
        for ids in batches(12):
            losses(table, ids).backward()
            losses(theirs, ids).backward()
            optimizer.step()
            optimizer.zero_grad()
            for schedule in schedules:
                schedule.step()
            assert table.learning_rate == ours.lr == schedules[0].get_last_lr()[0] == optimizer.param_groups[0]["lr"]
            seen.append(ours.lr)
    assert len(set(seen)) > 3
    torch.testing.assert_close(table.weight, theirs.weight.detach(), rtol=1e-4, atol=1e-5)


def test_a_schedule_by_a_measure_and_its_state():
    optimizer = optim.SGD(0.4)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for measure in (1.0, 2.0, 3.0):
        schedule.step(measure)
    assert optimizer.lr == 0.1
    other = optim.SGD(0.4)
    other.load_state_dict(optimizer.state_dict())
    assert other.lr == 0.1
    with pytest.raises(ValueError, match="learning rate"):
        optimizer.lr = -1
    assert optimizer.step(lambda: 5) == 5 and optimizer.step() is None


@CACHES
def test_a_rate_that_is_refused_in_backward_leaves_a_table_that_works(cache):
    optimizer = optim.SGD(0.5)
    table, plain = make(optimizer, cache=cache), make(optim.SGD(0.5))
    rows = table(torch.tensor([1, 2]))
    optimizer.param_groups[0]["lr"] = float("nan")
    with pytest.raises(ValueError, match="learning rate"):
        rows.sum().backward()
    optimizer.lr = 0.5
    for each in (table, plain):
        each(torch.tensor([2, 3])).sum().backward()
    assert torch.equal(table.weight, plain.weight)


def test_tables_share_the_rate_of_their_optimizer():
    optimizer = optim.SGD(1.0)
    tables = [make(optimizer), make(optimizer, cache=CacheConfig(cache_ratio=0.2))]
    tables[0].learning_rate = 0.25
    before = [table.weight.clone() for table in tables]
    for table in tables:
        table(torch.tensor([4])).sum().backward()
    for table, was in zip(tables, before):
        assert table.learning_rate == 0.25
        torch.testing.assert_close(was[4] - table.weight[4], torch.full((DIM,), 0.25))


def by_state_dict(table, _):
    other = make(copy.deepcopy(table._table.optimizer))
    other.load_state_dict(table.state_dict())
    return other


def by_file(table, folder):
    table.save(folder / "table.safetensors")
    other = make(copy.deepcopy(table._table.optimizer))
    other.load(folder / "table.safetensors")
    return other


@pytest.mark.parametrize("optimizer", [optim.Adam(0.1), optim.RowwiseAdam(0.1, clip=1.0)])
@pytest.mark.parametrize("copied", [by_state_dict, by_file, lambda table, _: copy.deepcopy(table),
                                    lambda table, _: pickle.loads(pickle.dumps(table))],
                         ids=["state_dict", "file", "deepcopy", "pickle"])
@CACHES
def test_the_count_of_updates_goes_with_the_state(optimizer, copied, cache, tmp_path):
    table = make(copy.deepcopy(optimizer), cache=cache)
    train(table, 4, most=9)
    other = copied(table, tmp_path)
    assert other.state_dict()["optimizer_updates"].tolist() == [4]
    assert other.state_dict()["optimizer_state"].shape == (ROWS, STATE_FLOATS[type(optimizer)](DIM))
    for each in (table, other):
        train(each, 5, most=9, seed=1)
    for name, value in table.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    table.reset_parameters()
    assert table.state_dict()["optimizer_updates"].tolist() == [0]


def test_rows_without_a_state_begin_to_count(tmp_path):
    table = make(optim.Adam(0.1))
    train(table, 3)
    rows = torch.nn.Embedding(ROWS, DIM)
    table.load_state_dict(rows.state_dict())
    assert not table.state_dict()["optimizer_state"].any() and table.state_dict()["optimizer_updates"].tolist() == [0]
    train(table, 3)
    table.save(tmp_path / "rows.npy")
    table.load(tmp_path / "rows.npy")
    assert table.state_dict()["optimizer_updates"].tolist() == [0]


@pytest.mark.parametrize("name, value, sentence", [
    ("optimizer_updates", torch.tensor([0.5]), "is one whole number"),
    ("optimizer_updates", torch.tensor([2**63 - 1]), "is one whole number"),
    ("optimizer_updates", torch.tensor([1], dtype=torch.bfloat16), "torch.bfloat16"),
    ("weight", torch.empty(ROWS, DIM, device="meta"), "on meta"),
    ("weight", torch.zeros(ROWS, DIM).to_sparse(), "sparse_coo"),
    ("optimizer_state", torch.zeros(ROWS, 2 * DIM, dtype=torch.complex64), "torch.complex64")],
    ids=["no whole number", "too many", "bfloat16", "no memory", "sparse", "complex"])
def test_a_state_that_cannot_be_taken_changes_nothing(name, value, sentence):
    table = make(optim.Adam(0.1))
    train(table, 2)
    before = {name: value.clone() for name, value in table.state_dict().items()}
    other = {"weight": before["weight"] + 1, "optimizer_state": before["optimizer_state"] + 1,
             "optimizer_updates": torch.tensor([7]), name: value}
    with pytest.raises(RuntimeError, match=sentence):
        table.load_state_dict(other)
    assert all(torch.equal(value, before[name]) for name, value in table.state_dict().items())


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("optimizer", [optim.Adam(0.1), optim.RowwiseAdam(0.1), optim.RowwiseAdagrad(0.1)])
def test_a_step_that_the_scaler_skips_moves_nothing(optimizer, device):
    """Adam would move rows whose gradient is zero."""
    table = make(copy.deepcopy(optimizer), device=device, cache=CacheConfig(cache_ratio=0.3))
    train(table, 2)
    state = {name: value.clone() for name, value in table.state_dict().items()}
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
    scaler.scale(losses(table, torch.arange(5)) * 1e38).backward()
    scaler.step(table._table.optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**9
    for name, value in table.state_dict().items():
        assert torch.equal(value, state[name]), name


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("cache", [CacheConfig(flush="none"), CacheConfig(cache_ratio=0.3),
                                   CacheConfig(cache_ratio=0.3, flush="p2f")])
def test_a_lookup_without_a_gradient_moves_nothing(cache, device):
    table = make(optim.Adam(0.1), device=device, cache=cache)
    train(table, 2)
    state = {name: value.clone() for name, value in table.state_dict().items()}
    table(torch.arange(9))
    for name, value in table.state_dict().items():
        assert torch.equal(value, state[name]), name


@pytest.mark.parametrize("wrong, sentence", [
    (lambda: optim.SGD(-1), "learning rate"), (lambda: optim.Adam(float("nan")), "learning rate"),
    (lambda: optim.SGD(1e39), "learning rate"), (lambda: optim.Adagrad(0.1, eps=1e-50), "eps"),  # of float32
    (lambda: optim.SGD(0.1, clip=1e-50), "clip is a float32 norm above 0"),
    (lambda: optim.SGD(0.1, clip=0), "clip"), (lambda: optim.Adagrad(0.1, clip=float("inf")), "clip"),
    (lambda: optim.Adam(0.1, (0.9, 1.0)), "betas"),
    (lambda: optim.Adam(0.1, (0.9,)), "betas"), (lambda: optim.RowwiseAdam(0.1, eps=0), "eps"),
    (lambda: optim.SGD("0.1"), "learning rate"), (lambda: optim.SGD(None), "learning rate"),
    (lambda: optim.SGD(torch.nn.Linear(1, 1).parameters()), "learning rate"),
    (lambda: optim.SGD(torch.ones(2)), "learning rate"), (lambda: optim.SGD(0.1, clip="1"), "clip"),
    (lambda: optim.Adam(0.1, 0.9), "betas"), (lambda: optim.Adam(0.1, None), "betas"),
    (lambda: optim.Adam(0.1, ("a", "b")), "betas"), (lambda: optim.Adagrad(0.1, None), "eps"),
    (lambda: optim.SGD(0.1).add_param_group({"params": [torch.zeros(1)]}), "no parameters"),
    (lambda: optim.Adam(0.1).load_state_dict(optim.SGD(0.1).state_dict()), "has no eps and no betas")])
def test_what_makes_no_sense_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_settings_that_an_optimizer_does_not_have_are_refused():
    """Rather than kept in param_groups, where nobody reads them."""
    for kind in (optim.SGD, optim.RowwiseAdagrad, optim.Adagrad, optim.Adam, optim.RowwiseAdam):
        with pytest.raises(TypeError, match="weight_decay"):
            kind(0.1, weight_decay=0.1)


def test_a_state_is_loaded_with_the_settings_that_it_has():
    ours, theirs = optim.Adam(0.1), optim.Adam(0.2, (0.5, 0.6), 1e-3, clip=2.0)
    ours.load_state_dict(theirs.state_dict())
    assert (ours.lr, ours.betas, ours.eps, ours.param_groups[0]["clip"]) == (0.2, (0.5, 0.6), 1e-3, 2.0)
    with pytest.raises(ValueError):
        ours.load_state_dict(optim.SGD(0.3).state_dict())
    assert (ours.lr, ours.betas) == (0.2, (0.5, 0.6))
