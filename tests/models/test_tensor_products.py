"""Products on tensor cores (--matmul tf32x3, and tf32 in one pass) against those of float32 on the same GPU."""
import numpy as np
import pytest
from models.test_block_gradients import BUILT_IN, differentiate_twice

from dglke_frugal import _native
from dglke_frugal.models import find_model
from dglke_frugal.store.device.cuda_device import CudaDevice
from dglke_frugal.store.device.device import Device
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

ENTITIES, RELATIONS = 3000, 50
SIZES = {"FB15k": (256, 4, 256, 400), "odd": (37, 3, 70, 50), "few": (3, 2, 5, 18)}  # chunk, chunks, negatives, hidden
WITH_PRODUCTS = [model for model in BUILT_IN if find_model(model).similarity in ("dot", "l2")]


def make_case(model, sizes, degree_negatives):
    chunk, chunks, negatives, hidden = SIZES[sizes]
    dims = find_model(model).dims(hidden, *find_model(model).doubled)
    random = np.random.default_rng(3)
    tables = []
    for rows, dim in ((ENTITIES, dims.entity), (RELATIONS, dims.relation)):
        tables.append(_native.HostTable(rows, dim))
        tables[-1].embeddings[:] = random.uniform(-0.1, 0.1, (rows, dim))
    head, tail, negative = (random.integers(0, ENTITIES, n) for n in (chunk * chunks,) * 2 + (chunks * negatives,))
    batch = _native.make_batch(head, random.integers(0, RELATIONS, chunk * chunks), tail, negative, False, chunk,
                               ENTITIES, RELATIONS, weight=None)
    loss = LossConfig(adversarial=True, regularization_coefficient=1e-7)
    return StepConfig(model, dims.entity, dims.relation, 12.0, 0.1, 0.1, loss, degree_negatives), batch, tables


def difference(found, expected):
    return np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected.astype(np.float64))


@pytest.mark.cuda
@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("model", WITH_PRODUCTS)
def test_losses_and_gradients_are_near_those_of_float32(model, sizes, degree_negatives):
    case = make_case(model, sizes, degree_negatives)
    expected, losses = differentiate_twice(*case, CudaDevice(0))
    for matmul, of_losses, of_gradients in (("tf32x3", 1e-6, 4e-6), ("tf32", 1e-3, 4e-3)):
        found, rounded = differentiate_twice(*case, CudaDevice(0), matmul)
        np.testing.assert_allclose(rounded, losses, rtol=of_losses, err_msg=matmul)
        for mine, theirs in zip(found, expected):
            assert difference(mine, theirs) <= of_gradients, matmul
        assert not np.array_equal(found[1], expected[1]), "no tensor core has run"
        again, _ = differentiate_twice(*case, CudaDevice(0), matmul)
        assert all(np.array_equal(*pair) for pair in zip(again, found)), matmul


@pytest.mark.cuda
@pytest.mark.parametrize("model", [model for model in BUILT_IN if model not in WITH_PRODUCTS])
def test_models_without_products_have_the_same_bits(model):
    case = make_case(model, "odd", False)
    expected, losses = differentiate_twice(*case, CudaDevice(0))
    found, same = differentiate_twice(*case, CudaDevice(0), "tf32x3")
    assert all(np.array_equal(*pair) for pair in zip(found, expected))
    np.testing.assert_allclose(same, losses, rtol=1e-12)


@pytest.mark.parametrize("model", WITH_PRODUCTS)
def test_on_the_cpu_nothing_is_rounded(model):
    case = make_case(model, "odd", False)
    (expected, losses), (found, same) = (differentiate_twice(*case, Device(), matmul) for matmul in ("fp32", "tf32x3"))
    assert all(np.array_equal(*pair) for pair in zip(found, expected)) and np.array_equal(same, losses)
