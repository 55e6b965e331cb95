"""The softmax over large tables of short rows, whose scores are never kept, against float64 formulas."""
import numpy as np
import pytest
import torch

from dglke_frugal.store.device import CudaDevice
from dglke_frugal.training.full_softmax import flash_shape, flash_softmax
from dglke_frugal.training.full_softmax.flash_shape import FEWEST, flash_fits, flash_floats, splits
from dglke_frugal.training.full_softmax.flash_softmax import FlashSoftmax
from dglke_frugal.training.full_softmax.table_update import TableShape

RATE, EPSILON = 0.1, 1e-10


@pytest.mark.parametrize("queries", [1, 37, 1000])
@pytest.mark.parametrize("rows", [1, 300, 2_500_604])
def test_splits_cover_a_part_once(queries, rows):
    launch = flash_shape.SUMS
    each, count = splits(queries, rows)
    assert (count - 1) * each < rows <= count * each
    assert each % launch.rows == 0
    assert count * -(-queries // launch.queries) <= flash_shape.PROGRAMS


def test_what_it_is_for(monkeypatch):
    monkeypatch.setattr(flash_shape, "has_triton", lambda: True)
    fitting = {"matmul": "tf32", "rows": FEWEST, "dim": 100, "one_answer": True, "bound": 0.0, "dropout": 0.0}
    assert flash_fits(**fitting) and flash_fits(**{**fitting, "matmul": "bf16"})
    for name, value in (("matmul", "fp32"), ("rows", FEWEST - 1), ("dim", 129), ("one_answer", False), ("bound", 20.0),
                        ("dropout", 0.1)):
        assert not flash_fits(**{**fitting, name: value}), name
    monkeypatch.setattr(flash_shape, "has_triton", lambda: False)
    assert not flash_fits(**fitting)


def test_it_holds_little_of_a_large_table():
    assert flash_floats("adagrad", 1000, 2_500_604, 100, 2000) < 0.16 * 2_500_604 * 100


def expected(table, query, target, scale, weight):
    """Of float64: loss, gradients by query and by rows."""
    scores = query @ table.t()
    log_sum = scores.logsumexp(1)
    loss = ((log_sum - scores.gather(1, target[:, None])[:, 0]) * scale).sum()
    slopes = (scores - log_sum[:, None]).exp()
    slopes[torch.arange(len(query)), target] -= 1
    slopes *= weight * scale[:, None]
    return loss, slopes @ table, slopes.t() @ query


@pytest.mark.cuda
@pytest.mark.parametrize("matmul, precision", [("tf32", 4e-3), ("bf16", 3e-2)])
@pytest.mark.parametrize("queries, rows, dim", [(37, 1001, 20), (130, 5000, 100), (1000, 70_001, 128), (1, 64, 16)])
def test_against_float64(matmul, precision, queries, rows, dim, monkeypatch):
    monkeypatch.setattr(flash_softmax, "PART", 768)  # several, of which the last is shorter
    random, weight = torch.Generator("cuda").manual_seed(0), 0.7
    def numbers(*shape):
        return torch.randn(*shape, device="cuda", generator=random)
    held = numbers(rows, 2 * dim + 4)
    held[:, dim : 2 * dim] = 1.0  # the states
    query, scale = 0.3 * numbers(queries, dim), torch.rand(queries, device="cuda", generator=random)
    batch = torch.randperm(rows, device="cuda", generator=random)[:12].sort().values
    target = batch[torch.randint(12, (queries,), device="cuda", generator=random)]
    batch = torch.cat([batch, torch.full((2,), rows, device="cuda")])  # the last two only pad
    loss, of_query, of_rows = expected(held[:, :dim].double(), query.double(), target, scale.double(), weight)

    found = []
    for _ in range(2):
        table = held.clone()
        softmax = FlashSoftmax(CudaDevice(0), matmul, TableShape(queries, rows, dim, len(batch)),
                               ("adagrad", RATE, EPSILON, None))
        torch.cuda.synchronize()  # the device's memory is filled on another stream
        softmax.query.copy_(query)
        once = softmax.meet(table, batch, (target,), scale, None, weight)
        softmax.end(batch)
        found.append([*once, softmax.aside[:12], table])
    torch.cuda.synchronize()
    for once, again in zip(*found):
        assert torch.equal(once, again)
    of_loss, by_query, aside, table = found[0]
    np.testing.assert_allclose(of_loss.item(), loss.item(), rtol=precision)
    for got, want in ((by_query, of_query), (aside, of_rows[batch[:12]])):
        assert (got.double() - want).abs().max() <= precision * want.abs().max()
    kept = torch.isin(torch.arange(rows, device="cuda"), batch)
    assert torch.equal(table[kept], held[kept])
    state = held[:, dim : 2 * dim].double() + of_rows**2
    moved = held[:, :dim].double() - RATE * of_rows / (state.sqrt() + EPSILON)
    assert (table[:, :dim].double() - moved)[~kept].abs().max() <= precision * RATE * of_rows.abs().max()
