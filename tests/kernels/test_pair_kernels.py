"""Every row against every other: the kernels on the CPU and (marked cuda) on a device, against formulas in float64."""
import numpy as np
import pytest

from dglke_frugal._native import PairKind, pair_distances, pair_gradients

SHAPES = [(1, 1, 1, 2), (2, 3, 5, 4), (3, 32, 33, 64), (2, 70, 31, 130), (5, 1, 40, 66), (1, 65, 100, 400)]
KINDS = [PairKind.ABSOLUTE, PairKind.MODULUS]


def differences(mine, theirs):
    return mine[:, :, None].astype(np.float64) - theirs[:, None]


def reference(kind, mine, theirs, weight):
    """Distances and gradients of `mine` in float64."""
    d = differences(mine, theirs)
    if kind == PairKind.ABSOLUTE:
        return np.abs(d).sum(-1), (weight[..., None] * np.sign(d)).sum(2)
    half = d.shape[-1] // 2
    modulus = np.hypot(d[..., :half], d[..., half:])
    direction = d / np.where(modulus == 0, 1, modulus)[..., list(range(half)) * 2]
    return modulus.sum(-1), (weight[..., None] * direction).sum(2)


def case(shape, seed=0):
    chunks, mine, theirs, columns = shape
    random = np.random.default_rng(seed)
    a, b = (random.normal(size=(chunks, rows, columns)).astype(np.float32) for rows in (mine, theirs))
    b[:, 0] = a[:, 0]  # equal rows, whose distance has no slope
    return a, b, random.normal(size=(chunks, mine, theirs)).astype(np.float32)


def run(machine, kind, a, b, weight):
    distances, gradients = (machine.put(np.full(like.shape, 7, np.float32)) for like in (weight, a))
    a, b = machine.put(a), machine.put(b)
    pair_distances(kind, a, b, distances, machine.stream)
    pair_gradients(kind, a, b, machine.put(weight), gradients, machine.stream)
    return machine.get(distances), machine.get(gradients)


@pytest.mark.parametrize("kind", KINDS, ids=["absolute", "modulus"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_formulas(machine, kind, shape):
    a, b, weight = case(shape)
    found, expected = run(machine, kind, a, b, weight), reference(kind, a, b, weight)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=["absolute", "modulus"])
def test_weights_may_be_turned(machine, kind):
    """As the gradients of the other side need them."""
    a, b, weight = case((3, 20, 9, 12))
    turned = machine.put(weight).transpose(0, 2, 1) if machine.name == "cpu" else machine.put(weight).transpose(1, 2)
    found = machine.put(np.zeros(b.shape, np.float32))
    pair_gradients(kind, machine.put(b), machine.put(a), turned, found, machine.stream)
    _, expected = reference(kind, b, a, weight.transpose(0, 2, 1))
    np.testing.assert_allclose(machine.get(found), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS, ids=["absolute", "modulus"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_device_gives_the_bits_of_the_cpu(kind, shape):
    from kernels.conftest import CpuMachine, CudaMachine

    for ours, theirs in zip(run(CpuMachine(), kind, *case(shape)), run(CudaMachine(), kind, *case(shape))):
        np.testing.assert_array_equal(ours, theirs)


def test_shapes_that_do_not_fit_are_refused():
    a, b, weight = case((2, 3, 5, 4))
    with pytest.raises(ValueError, match="rows of one length"):
        pair_distances(KINDS[0], a, b[:, :, :2].copy(), weight)
    with pytest.raises(ValueError, match="distances must be"):
        pair_distances(KINDS[0], a, b, weight[:1])
    with pytest.raises(ValueError, match="weights must be"):
        pair_gradients(KINDS[0], a, b, weight[:, :2], np.zeros_like(a))
    with pytest.raises(ValueError, match="even length"):
        pair_distances(KINDS[1], a[:, :, :3].copy(), b[:, :, :3].copy(), weight)
