"""The softmax over all relations of (head, ?, tail), against float64 autograd; relations in no batch move, too."""
import numpy as np
import pytest
from devices import device  # noqa: F401
from training.full_softmax.oracle import Oracle
from training.full_softmax.steps import RELATIONS, Trained, make_batch, make_config, make_tables

from dglke_frugal import _native
from dglke_frugal.store.device.device import HostDevice

ENTITIES, STEPS = 150, 4
SMALL_RATE = 1e-3  # of elementwise optimizers, see test_step.py


def assert_agrees(config, device, weighted=False, scale=1.0):  # noqa: F811
    tables = make_tables(config, ENTITIES, scale)
    oracle, trained = Oracle(config, *(table.embeddings for table in tables)), Trained(config, tables, device)
    before = tables[1].embeddings[RELATIONS - 1].copy()
    for number in range(STEPS):
        batch = make_batch(number, ENTITIES, weighted)
        assert RELATIONS - 1 not in batch.relation
        np.testing.assert_allclose(trained.run(batch, number), oracle.step(batch, number), rtol=2e-5)
        np.testing.assert_allclose(trained.losses.relation, oracle.relation_loss, rtol=2e-5)
        for table, expected in zip(tables, oracle.tables):
            np.testing.assert_allclose(table.embeddings, expected.numpy(), rtol=0, atol=3e-4)
    assert (tables[1].embeddings[RELATIONS - 1] != before).any()


@pytest.mark.parametrize("optimizer", ["row_adagrad", "adagrad", "adam"])
@pytest.mark.parametrize("model", ["DistMult", "ComplEx", "SimplE", "RESCAL"])
def test_against_autograd(model, optimizer, device):  # noqa: F811
    rate = 0.1 if optimizer == "row_adagrad" else SMALL_RATE
    assert_agrees(make_config(model, optimizer=optimizer, learning_rate=rate, relation_prediction=0.7), device)


def test_without_penalties_and_with_edge_importance(device):  # noqa: F811
    assert_agrees(make_config("ComplEx", 0.0, relation_prediction=4.0), device, weighted=True)


def test_n3(device):  # noqa: F811
    assert_agrees(make_config("ComplEx", 0.3, regularizer="n3", relation_prediction=0.5), device)


def test_scores_beyond_simple_s_bounds(device):  # noqa: F811
    assert_agrees(make_config("SimplE", 0.0, relation_prediction=1.0), device, scale=4.0)


@pytest.mark.parametrize("model", ["ComplEx", "RESCAL"])
def test_dropout(model, device):  # noqa: F811
    """Of both ends of a triple, and of all relations."""
    rates = {"entity_dropout": 0.4, "relation_dropout": 0.3, "seed": 77}
    assert_agrees(make_config(model, relation_prediction=0.7, **rates), device)


@pytest.mark.parametrize("model", ["ComplEx", "RESCAL"])
def test_threads_change_no_bit(model):
    import torch

    found, torch_threads, threads = [], torch.get_num_threads(), _native.num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            _native.set_num_threads(count)
            config = make_config(model, entity_dropout=0.2, relation_dropout=0.2, relation_prediction=0.7)
            tables = make_tables(config, ENTITIES)
            trained = Trained(config, tables, HostDevice())
            for number in range(STEPS):
                trained.run(make_batch(number, ENTITIES), number)
            found.append([table.records.tobytes() for table in tables])
    finally:
        torch.set_num_threads(torch_threads)
        _native.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


@pytest.mark.cuda
@pytest.mark.parametrize("model", ["ComplEx", "RESCAL"])
def test_two_runs_on_a_gpu_have_the_same_bits(model):
    from dglke_frugal.store.device.cuda_device import CudaDevice

    config, found = make_config(model, optimizer="adam", relation_prediction=0.7), []
    for _ in range(2):
        tables = make_tables(config, ENTITIES)
        trained = Trained(config, tables, CudaDevice(0))
        for number in range(STEPS):
            trained.run(make_batch(number, ENTITIES), number)
        found.append([table.records.tobytes() for table in tables])
    assert found[0] == found[1]
