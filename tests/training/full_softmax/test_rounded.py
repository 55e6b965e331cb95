"""Products of factors in 16 bits: their rounding, to the bit, and a softmax by them against float64 formulas."""
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dglke_frugal import _native
from dglke_frugal.store.device.cuda_device import CudaDevice
from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.training.full_softmax import full_softmax
from dglke_frugal.training.full_softmax.rounded_products import RoundedMatrix, RoundedProducts, stages_on
from dglke_frugal.training.full_softmax.table_softmax import TableSoftmax
from dglke_frugal.training.full_softmax.table_update import TableShape
from dglke_frugal.training.full_softmax.tile_products import DeviceProducts

RATE, EPSILON = 0.1, 1e-10
ON = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.cuda)]


def device_named(name):
    return HostDevice() if name == "cpu" else CudaDevice(0)


def with_digits(values, digits):
    """float32 values rounded to so many binary digits, ties to even, whatever their exponents."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.rint(np.ldexp(mantissa, digits)), exponent - digits).astype(np.float32)


def rounded(on, values, rows, columns):
    """(values (rows, columns) as float32, power)."""
    device = device_named(on)
    room = torch.zeros(len(values), -(-values.shape[1] // 4) * 4)[:, : values.shape[1]]
    room.copy_(torch.from_numpy(values))
    room = room.to(device.torch_device) if on == "cpu" else torch.empty_strided(
        room.shape, room.stride(), device="cuda").copy_(room)
    matrix = RoundedMatrix(device, rows, columns)
    if on == "cuda":
        torch.cuda.synchronize()  # what torch has filled on its own stream
    device.submit(lambda: matrix.round(room, rows))
    device.synchronize()
    power, inverse = matrix.power.item(), matrix.inverse.item()
    assert power * inverse == 1 and np.frexp(power)[0] == 0.5
    return matrix.values.float().cpu().numpy(), power


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("largest", [1e-30, 3e-7, 2e-4, 0.7, 31.9, 32.1, 5e4, 1e30])
def test_fp16_keeps_the_digits_of_tf32(on, largest):
    random = np.random.default_rng(0)
    values = largest * random.uniform(0.5, 1, (37, 22)) * 2.0 ** -random.integers(0, 12, (37, 22))
    values = (random.choice([-1, 1], values.shape) * values).astype(np.float32)
    values[3, 5] = largest
    found, power = rounded(on, values, 40, 32)
    assert np.abs(found).max() < 2**15
    np.testing.assert_array_equal(found[:37, :22] / np.float64(power), with_digits(values, 11))
    assert not found[37:].any() and not found[:, 22:].any()


@pytest.mark.parametrize("on", ON)
def test_what_is_too_small_for_a_half_is_off_by_little(on):
    """By half of the distance of the smallest numbers in half precision, at most."""
    values = np.array([[16.0, 1e-7, -3e-8, 1e-9, 0.0]], np.float32)
    found, power = rounded(on, values, 1, 8)
    assert power == 1024
    assert (np.abs(found[:, :5] / power - values) <= 2.0**-25 / power).all()


@pytest.mark.parametrize("on", ON)
def test_what_is_not_finite_stays_so(on):
    values = np.full((2, 8), 0.5, np.float32)
    values[0, 3], values[1, 1] = np.nan, np.inf
    found, power = rounded(on, values, 2, 8)
    assert power == 1024 and np.isnan(found[0, 3]) and found[1, 1] == np.inf and found[0, 0] == 512


def test_what_is_not_a_matrix_of_half_precision_is_refused():
    floats, scaling = torch.zeros(3, 8), torch.zeros(3)
    with pytest.raises(ValueError, match="16-bit"):
        _native.round_matrix(floats, torch.zeros(3, 8), scaling)
    with pytest.raises(ValueError, match="16-bit"):
        _native.round_matrix(floats, torch.zeros(2, 8, dtype=torch.float16), scaling)


def labels_of(targets, queries, rows):
    """(B, rows) float64: what the softmax of each query should be."""
    ids, begin, end, on, off = targets
    labels = torch.zeros(queries, rows, dtype=torch.float64)
    for i in range(queries):
        labels[i, ids[begin[i] : end[i]]] = 1.0 if on is None else on[i].double()
        labels[i] += 0.0 if off is None else off[i].double()
    return labels


def some_targets(all_answers, queries, rows, random):
    counts = [1 + i % 3 if all_answers else 1 for i in range(queries)]
    ids = torch.cat([torch.randperm(rows, generator=random)[:count].sort().values for count in counts])
    end = torch.tensor(counts).cumsum(0)
    if not all_answers:
        return ids, end - 1, end, None, None
    whole = 1 / (0.9 * torch.tensor(counts) + 1)
    return ids, end - torch.tensor(counts), end, 0.9 * whole, whole / rows


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("queries, rows, dim, all_answers, size", [
    (37, 1301, 20, False, 1.0), (37, 1301, 80, True, 1.0), (7, 601, 22, True, 1e-5), (16, 700, 33, False, 40.0),
    (1, 130, 16, False, 1.0)])
def test_a_softmax_against_float64(on, queries, rows, dim, all_answers, size, monkeypatch):
    """Of tiles, of all scores at once, of numbers that are not of a usual size; the tables' numbers are `size`
    large."""
    monkeypatch.setattr(RoundedProducts, "tile_floats", 0)
    device, random, weight, precision = device_named(on), torch.Generator().manual_seed(0), 0.7, 2e-3
    place = device.torch_device
    held = size * torch.randn(rows, -(-2 * dim // 4) * 4, generator=random)
    held[:, dim:] = 1.0  # the states
    query = torch.randn(queries, dim, generator=random) / (size * dim**0.5)
    scale = torch.rand(queries, generator=random) + 0.1
    targets = some_targets(all_answers, queries, rows, random)
    batch = torch.cat([torch.randperm(rows, generator=random)[:5].sort().values, torch.full((2,), rows)])

    scores = query.double() @ held[:, :dim].double().t()
    log_sum = scores.logsumexp(1)
    labels = labels_of(targets, queries, rows)
    loss = ((log_sum - (labels * scores).sum(1)) * scale).sum()
    slopes = weight * scale[:, None].double() * ((scores - log_sum[:, None]).exp() - labels)
    of_query, of_rows = slopes @ held[:, :dim].double(), slopes.t() @ query.double()

    softmax = TableSoftmax(device, "tf32", RoundedProducts, TableShape(queries, rows, dim, len(batch)),
                           ("adagrad", RATE, EPSILON, None))
    table = held.to(place, copy=True)
    given = [query.to(place), batch.to(place), tuple(None if x is None else x.to(place) for x in targets),
             scale.to(place)]
    found, sums = [], torch.zeros(len(batch), dim, device=place)
    if on == "cuda":
        torch.cuda.synchronize()

    def apply():
        softmax.begin(table, given[1])
        softmax.query.copy_(given[0])
        of_query = softmax.apply(table, *given[2:], None, weight)
        found.extend([softmax.end(given[1], sums), of_query])

    device.submit(apply)
    device.synchronize()
    np.testing.assert_allclose(found[0].item(), loss.item(), rtol=precision)
    for got, want in ((found[1], of_query), (sums[:5], of_rows[batch[:5]])):
        assert (got.cpu().double() - want).abs().max() <= precision * want.abs().max()
    kept = torch.isin(torch.arange(rows), batch)
    moved = held[:, :dim].double() - RATE * of_rows / ((1 + of_rows**2).sqrt() + EPSILON)
    assert torch.equal(table.cpu()[kept], held[kept])
    off = (table.cpu()[:, :dim].double() - moved)[~kept].abs().max()
    assert off <= precision * RATE * of_rows.abs().max() + 1e-6 * size


@pytest.mark.parametrize("shared_bytes, stages", [(227 << 10, 4), (164 << 10, 4), (99 << 10, 2)])
def test_gpus_with_less_memory_in_a_multiprocessor_have_fewer_copies_under_way(shared_bytes, stages, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda device: SimpleNamespace(shared_memory_per_block_optin=shared_bytes))
    assert stages_on(HostDevice(), 4) == stages


def test_an_older_pytorch_has_the_products_of_cublas(monkeypatch):
    products_of = full_softmax.products_on_device
    assert products_of("tf32") is RoundedProducts and products_of("fp32") is DeviceProducts
    monkeypatch.setattr(full_softmax, "multiplies_half_precision", lambda: False)
    assert products_of("tf32") is DeviceProducts and not DeviceProducts.updates_rows
