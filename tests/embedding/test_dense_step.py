"""DenseStep: the bits of a loop that is written out, launched operation by operation or as a CUDA graph."""
import pytest
import torch

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import DenseStep, Uniform

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
SIZES = (5, 5, 5, 5, 3, 5, 3, 5)  # the last batch of a data set is shorter; more steps than are launched eagerly


def make(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    table = Embedding(40, 4, optim.SGD(0.1), device=device, init=Uniform(-1, 1), seed=3)
    return model, table, torch.optim.SGD(model.parameters(), 0.1)


def loss_of(model, rows, x, y):
    return torch.nn.functional.mse_loss(model(torch.cat([rows, x], 1)).squeeze(1), y)


def batches():
    random = torch.Generator().manual_seed(1)
    for size in SIZES:
        yield (torch.randint(40, (size,), generator=random), torch.randn(size, 3, generator=random),
               torch.randn(size, generator=random))


def written_out(device):
    model, table, optimizer = make(device)
    for ids, x, y in batches():
        optimizer.zero_grad()
        loss_of(model, table(ids), x.to(device), y.to(device)).backward()
        optimizer.step()
    return model, table


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_dense_step_is_the_loop_written_out(device, graphs):
    expected_model, expected_table = written_out(device)
    model, table, optimizer = make(device)
    step = DenseStep(lambda rows, x, y: loss_of(model, rows, x, y), optimizer, graphs)
    for number, (ids, x, y) in enumerate(batches()):
        if number == len(SIZES) - 1:
            assert len(step._captured) == (1 if device == "cuda" and graphs else 0)  # the short batches are too few
            step.close()
        rows = table(ids)
        table.learn(rows, step(rows, x, y))
    assert torch.equal(table.weight, expected_table.weight)
    for parameter, expected in zip(model.parameters(), expected_model.parameters()):
        assert torch.equal(parameter, expected)
    assert not step._captured


def test_a_step_changes_neither_rows_nor_their_gradient():
    weight = torch.nn.Parameter(torch.ones(3))
    step = DenseStep(lambda rows, x: (rows * weight * x).sum(), torch.optim.SGD([weight], 0.5))
    rows = torch.ones(2, 3, requires_grad=True)
    assert torch.equal(step(rows, torch.full((3,), 2.0)), torch.full((2, 3), 2.0))
    assert rows.grad is None and torch.equal(rows.detach(), torch.ones(2, 3))
    assert torch.equal(weight.detach(), torch.full((3,), 1 - 0.5 * 4.0))


def test_an_optimizer_of_rows_is_refused():
    with pytest.raises(ValueError, match="layers are trained by an optimizer of torch.optim"):
        DenseStep(lambda rows: rows.sum(), optim.SGD(0.1))
