"""The softmax over large tables of short rows, whose scores are never kept, against float64 formulas."""
import pytest
import torch
from training.full_softmax.softmax_case import EPSILON, RATE, Case

from dglke_frugal.store.device.cuda_device import CudaDevice
from dglke_frugal.training.full_softmax import flash_shape, flash_softmax
from dglke_frugal.training.full_softmax.flash_shape import FEWEST, flash_fits, flash_floats, part_rows, splits
from dglke_frugal.training.full_softmax.flash_softmax import FlashSoftmax
from dglke_frugal.training.full_softmax.table_update import TableShape


@pytest.mark.parametrize("queries", [1, 37, 1000])
@pytest.mark.parametrize("rows", [1, 300, 2_500_604])
def test_splits_cover_a_part_once(queries, rows):
    launch = flash_shape.SUMS
    each, count = splits(queries, rows)
    assert (count - 1) * each < rows <= count * each
    assert each % launch.rows == 0
    assert count * -(-queries // launch.queries) <= flash_shape.PROGRAMS


@pytest.mark.parametrize("rows, parts", [(1, 1), (300, 1), (flash_shape.PART, 1), (flash_shape.PART + 1, 2),
                                         (2_500_604, 11)])
def test_parts_are_even_and_cover_a_table(rows, parts):
    each = part_rows(rows)
    assert (parts - 1) * each < rows <= parts * each and each <= flash_shape.PART
    assert parts == 1 or (each % flash_shape.SUMS.rows == 0 and parts * each - rows < parts * flash_shape.SUMS.rows)


@pytest.mark.parametrize("queries", [1, 64, 65, 1000, 1030])
def test_both_passes_have_whole_tiles_of_queries(queries):
    whole = flash_shape.whole_queries(queries)
    assert 0 <= whole - queries < flash_shape.QUERY_TILE
    assert whole % flash_shape.SUMS.queries == 0 and whole % flash_shape.GRADIENTS.queries == 0


def test_what_it_is_for(monkeypatch):
    monkeypatch.setattr(flash_shape, "has_triton", lambda: True)
    fitting = {"matmul": "tf32", "rows": FEWEST, "dim": 100, "one_answer": True, "bound": 0.0, "dropout": 0.0}
    assert flash_fits(**fitting)
    for name, value in (("matmul", "fp32"), ("rows", FEWEST - 1), ("dim", 129), ("one_answer", False), ("bound", 20.0),
                        ("dropout", 0.1)):
        assert not flash_fits(**{**fitting, name: value}), name
    monkeypatch.setattr(flash_shape, "has_triton", lambda: False)
    assert not flash_fits(**fitting)


def test_it_holds_little_of_a_large_table():
    assert flash_floats("adagrad", 1000, 2_500_604, 100, 2000) < 0.16 * 2_500_604 * 100


@pytest.mark.cuda
@pytest.mark.parametrize("queries, rows, dim", [(37, 1001, 20), (130, 5000, 100), (1000, 70_001, 128), (1, 64, 16)])
def test_against_float64(queries, rows, dim, monkeypatch):
    monkeypatch.setattr(flash_shape, "PART", 768)  # several, of which the last is shorter
    case, found = Case(queries, rows, dim, "cuda"), []
    for _ in range(2):
        softmax = FlashSoftmax(CudaDevice(0), "tf32", TableShape(queries, rows, dim, len(case.batch)),
                               ("adagrad", RATE, EPSILON, None))
        torch.cuda.synchronize()  # the device's memory is filled on another stream
        found.append(case.apply(softmax, (case.target,)))
    torch.cuda.synchronize()
    for once, again in zip(*found):
        assert torch.equal(once, again)
    errors = case.errors(found[0])
    assert errors.pop("kept")
    assert max(errors.values()) <= 4e-3, errors
