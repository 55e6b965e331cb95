"""The softmax over all relations of (head, ?, tail), against float64 autograd; relations in no batch move, too."""
import pytest
from devices import device  # noqa: F401
from training.full_softmax.steps import assert_agrees, assert_threads_change_no_bit, make_config, records_after

SMALL_RATE = 1e-3  # of elementwise optimizers, see test_step.py


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
    assert_threads_change_no_bit(make_config(model, entity_dropout=0.2, relation_dropout=0.2, relation_prediction=0.7))


@pytest.mark.cuda
@pytest.mark.parametrize("model", ["ComplEx", "RESCAL"])
def test_two_runs_on_a_gpu_have_the_same_bits(model):
    from dglke_frugal.store.device.cuda_device import CudaDevice

    config = make_config(model, optimizer="adam", relation_prediction=0.7)
    assert records_after(config, CudaDevice(0)) == records_after(config, CudaDevice(0))
