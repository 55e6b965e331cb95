"""The gradients of models with matrices in the device step against those of the CPU's step (csrc/step), which
test_gradients.py checks."""
import numpy as np
import pytest
import torch
from devices import device  # noqa: F401
from models.test_gradients import BY_RULE, LOSSES, assert_agree, make_case

from dglke_frugal.models import find_model
from dglke_frugal.training.step.device_batch import BatchForm
from dglke_frugal.training.step.device_gradients import EdgeRows
from dglke_frugal.training.step.device_torch import make_gradient_pass
from dglke_frugal.training.step.native_step import native_step


def differentiate(config, batch, tables, device):
    """Losses and gradients by part of an edge, as _native.TrainStep.differentiate gives them."""
    found = {}

    def put(array):
        return torch.from_numpy(np.array(array)).to(device.torch_device)

    def work():
        form = BatchForm(len(batch), batch.chunks, batch.negatives_per_chunk, batch.corrupt_head, len(batch.weight) > 0)
        entities, relations, projections = (table and put(table.embeddings) for table in tables)
        head, tail, relation, negative = map(put, (batch.head, batch.tail, batch.relation, batch.negative))
        rows = EdgeRows(entities[head], entities[tail], relations[relation], entities[negative],
                      None if projections is None else projections[relation])
        weight = put(batch.weight) if form.weighted else None
        gradients, slopes = make_gradient_pass(config, device).run(form, rows, weight)
        found.update({name: value.cpu().numpy() for name, value in gradients._asdict().items() if value is not None})
        mean = slopes.losses.double().mean(0).sum().item()
        found["total"] = mean if config.loss.joint else 0.5 * mean

    device.submit(work)
    device.synchronize()
    return found.pop("total"), found


def assert_cpu_agrees(config, batch, tables, device):
    losses, expected = native_step(config, 1).differentiate(batch, *tables)
    assert_agree(*differentiate(config, batch, tables, device), losses.total, expected)


@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("corrupt_head", [False, True], ids=["tails", "heads"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model, rule", [each for each in BY_RULE if find_model(each[0]).matrices])
def test_against_the_cpu(model, rule, loss, corrupt_head, degree_negatives, device):
    case = make_case(model, LOSSES[loss], corrupt_head, degree_negatives, weighted=corrupt_head, rule=rule)
    assert_cpu_agrees(*case, device)


def test_equal_rows_have_no_gradient(device):
    """Where a distance is 0 its slope is 0 and not NaN."""
    config, batch, tables = make_case("TransR", LOSSES["logsigmoid"], False, False, False)
    for table in tables:
        if table is not None:
            table.embeddings[:] = 0
    _, gradients = differentiate(config, batch, tables, device)
    for part, gradient in gradients.items():
        assert np.isfinite(gradient).all() and not gradient.any(), part
