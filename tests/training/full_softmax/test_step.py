"""A step against all entities, and with --relation_prediction against all relations, compared with float64 autograd
over the whole matrix of scores. Where relations are predicted those in no batch move, too."""
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import device  # noqa: F401
from threads import threads_as_before
from training.full_softmax.oracle import kept
from training.full_softmax.steps import (BATCH, RELATIONS, STEPS, Trained, assert_agrees, assert_threads_change_no_bit,
                                         make_batch, make_config, make_tables, records_after)

from dglke_frugal import _native
from dglke_frugal.training.full_softmax import tile_products, tiles
from dglke_frugal.training.full_softmax.tiles import tile_rows


@pytest.fixture
def small_tiles(monkeypatch):
    """Whose scores are computed twice."""
    for products in (tile_products.HostProducts, tile_products.DeviceProducts):
        monkeypatch.setattr(products, "tile_floats", 0)
        monkeypatch.setattr(products, "held_floats", 0)


PRODUCTS = ["DistMult", "ComplEx", "SimplE", "RESCAL"]
predicted = pytest.mark.parametrize("prediction", [0.0, 0.7])  # of relations


@pytest.mark.parametrize("optimizer", ["row_adagrad", "adagrad", "adam"])
@pytest.mark.parametrize("model, prediction", [*((model, 0.7) for model in PRODUCTS), *(
    (model, 0.0) for model in (*PRODUCTS, "TransE_l2", "TransE_l1", "RotatE"))])
def test_against_autograd(model, prediction, optimizer, device):  # noqa: F811
    # An element's first step of Adagrad is the sign of its gradient, whatever its size: a small rate hides that of 0.
    rate = 1e-3 if optimizer != "row_adagrad" else 0.1
    assert_agrees(make_config(model, optimizer=optimizer, learning_rate=rate, relation_prediction=prediction), device)


@pytest.mark.parametrize("model", ["ComplEx", "SimplE", "TransE_l2", "TransE_l1", "RotatE"])
def test_several_tiles(model, small_tiles, device):  # noqa: F811
    entities = 1300
    config = make_config(model)
    assert 512 >= tile_rows(BATCH, entities, config.step.entity_dim, 0, copied=False).scores < entities / 2
    assert_agrees(config, device, entities)


@pytest.mark.parametrize("model", ["DistMult", "TransE_l2"])
@pytest.mark.parametrize("optimizer", ["row_adagrad", "adagrad"])
def test_scores_of_all_rows_are_held_where_rows_are_long(model, optimizer, small_tiles, device):  # noqa: F811
    entities, config = 1300, make_config(model, optimizer=optimizer, learning_rate=1e-3)
    config = replace(config, step=replace(config.step, entity_dim=2 * BATCH, relation_dim=2 * BATCH))
    assert tile_rows(BATCH, entities, 2 * BATCH, 0, copied=False) == (entities, 512, entities)
    assert_agrees(config, device, entities)


def test_scores_are_held_where_all_are_few():
    most = 1000 * 14541
    assert tile_rows(1000, 14541, 200, 1 << 19, copied=True, held=most) == (14541, 5120, 640)
    assert tile_rows(1000, 14541, 200, 1 << 19, copied=True, held=most - 1) == (640, 640, 640)


@pytest.mark.parametrize("settings", [{}, dict(entity_dropout=0.3, optimizer="adam"), dict(relation_prediction=0.5)],
                         ids=["plain", "dropout", "relations"])
@pytest.mark.parametrize("model", ["ComplEx", "SimplE"])
def test_scores_that_are_held_change_no_bit_and_are_computed_once(model, settings, small_tiles, monkeypatch):
    """On the CPU. The table is more than two tiles, and its gradients more than one part."""
    entities, found, products = 1300, [], []
    monkeypatch.setattr(tiles, "HOST_GRADIENT_FLOATS", 0)
    multiply = _native.multiply

    def count(a, b, out, transposed, adds=False):
        products[-1] += len(a) * len(b) if transposed and len(b) > RELATIONS else 0
        multiply(a, b, out, transposed, adds=adds)

    monkeypatch.setattr(_native, "multiply", count)
    for held in (0, BATCH * entities):
        monkeypatch.setattr(tile_products.HostProducts, "held_floats", held)
        config = make_config(model, **settings)
        tables = make_tables(config, entities)
        trained = Trained(config, tables)
        products.append(0)
        losses = [trained.run(make_batch(number, entities), number) for number in range(STEPS)]
        found.append((losses, [table.records.tobytes() for table in tables]))
    assert found[0] == found[1]
    assert products == [2 * STEPS * BATCH * entities, STEPS * BATCH * entities]


@pytest.mark.parametrize("model, threads", [("ComplEx", 1), ("TransE_l2", 3)])
def test_torch_has_one_thread_where_kernels_do_the_work(model, threads, monkeypatch):
    """Distances are torch's work for the greater part."""
    seen, multiply = set(), _native.multiply

    def look(*args, **kwargs):
        seen.add(torch.get_num_threads())
        multiply(*args, **kwargs)

    monkeypatch.setattr(_native, "multiply", look)
    config = make_config(model)
    trained = Trained(config, make_tables(config, 150))
    with threads_as_before():
        torch.set_num_threads(3)
        trained.run(make_batch(0, 150), 0)
        assert seen == {threads} and torch.get_num_threads() == 3


@pytest.mark.parametrize("norm", [1, 2, 2.5])
def test_penalties(norm, device):  # noqa: F811
    assert_agrees(make_config("DistMult", 0.3, norm), device)


@predicted
def test_n3(prediction, device):  # noqa: F811
    assert_agrees(make_config("ComplEx", 0.3, regularizer="n3", relation_prediction=prediction), device)


@pytest.mark.parametrize("coefficient, prediction", [(0.05, 0.0), (0.0, 4.0)])
def test_edge_importance(coefficient, prediction, device):  # noqa: F811
    assert_agrees(make_config("ComplEx", coefficient, relation_prediction=prediction), device, weighted=True)


@predicted
def test_scores_beyond_simple_s_bounds(prediction, device):  # noqa: F811
    assert_agrees(make_config("SimplE", 0.0, relation_prediction=prediction), device, scale=4.0)


@pytest.mark.parametrize("model, rates, prediction", [
    *itertools.product(["ComplEx", "TransE_l2", "TransE_l1", "RotatE"], [(0.4, 0.0), (0.0, 0.3), (0.4, 0.3)], [0.0]),
    ("ComplEx", (0.4, 0.3), 0.7), ("RESCAL", (0.4, 0.3), 0.7)])
def test_dropout(model, rates, prediction, small_tiles, device):  # noqa: F811
    """Of all entities, of the queries' entities and of relations, each with masks of its own in every step. Through a
    query of TransE entity and relation have one gradient."""
    assert_agrees(make_config(model, entity_dropout=rates[0], relation_dropout=rates[1], seed=77,
                              relation_prediction=prediction), device, 700)


def test_what_is_dropped_depends_on_seed_step_part_and_place_alone(device):  # noqa: F811
    rows, dim, first = 50, 7, 10
    masks = {}
    for seed, step, part in ((5, 0, 1), (6, 0, 1), (5, 1, 1), (5, 0, 2)):
        values, number = device.zeros(rows, dim), device.zeros(1, dtype=np.int64)
        device.submit(lambda values=values, number=number, step=step: (values.fill_(1.0), number.fill_(step)))
        device.synchronize()
        _native.drop(values, 0.25, seed, number, part, 0, device.stream)
        device.synchronize()
        masks[seed, step, part] = values.cpu().numpy()
        name = {1: "fixed", 2: "relation"}[part]
        np.testing.assert_allclose(masks[seed, step, part], kept(0.25, seed, step, name, rows, dim).numpy(), rtol=1e-6)
    assert len({mask.tobytes() for mask in masks.values()}) == len(masks)
    part = device.zeros(rows - first, dim)
    device.submit(lambda: part.fill_(1.0))
    device.synchronize()
    _native.drop(part, 0.25, 5, device.zeros(1, dtype=np.int64), 1, first, device.stream)
    device.synchronize()
    np.testing.assert_array_equal(part.cpu().numpy(), masks[5, 0, 1][first:])


@pytest.mark.parametrize("model, held, settings", [
    ("ComplEx", 0, {}), ("ComplEx", 1 << 20, {}), ("RESCAL", 0, {}), ("TransE_l2", 0, {}), ("RotatE", 0, {}),
    *((model, 0, dict(relation_dropout=0.2, relation_prediction=0.7)) for model in ("ComplEx", "RESCAL"))])
def test_threads_change_no_bit(model, held, settings, small_tiles, monkeypatch):
    monkeypatch.setattr(tile_products.HostProducts, "held_floats", held)
    assert_threads_change_no_bit(make_config(model, entity_dropout=0.2, **settings), 1300)


@pytest.mark.parametrize("model, prediction", [("ComplEx", 0.0), ("ComplEx", 0.7), ("RESCAL", 0.7)])
def test_two_runs_on_a_device_have_the_same_bits(model, prediction, small_tiles, device):  # noqa: F811
    config = make_config(model, optimizer="adam", relation_prediction=prediction)
    assert records_after(config, device, 1300) == records_after(config, device, 1300)


@pytest.mark.cuda
def test_rounded_products_are_near(small_tiles):
    from dglke_frugal.store.device.cuda_device import CudaDevice

    config, entities = make_config("ComplEx", learning_rate=0.01), 1300
    found = []
    for precision in ("fp32", "tf32"):
        tables = make_tables(config, entities)
        trained = Trained(config, tables, CudaDevice(0), precision)
        found.append([trained.run(make_batch(number, entities), number) for number in range(STEPS)])
    assert found[0] != found[1]
    np.testing.assert_allclose(found[1], found[0], rtol=0.02)


def test_products_that_do_not_fit_are_refused():
    """What they are: csrc/tests/full_softmax/test_products.cpp."""
    def matrix(rows, columns):
        return torch.zeros(rows, 16)[:, :columns]

    with pytest.raises(ValueError, match="fit"):
        _native.multiply(matrix(3, 4), matrix(5, 6), matrix(3, 5), True)
    with pytest.raises(ValueError, match="as it lies"):
        _native.multiply(matrix(3, 4), matrix(5, 4), matrix(3, 5), True, adds=True)
