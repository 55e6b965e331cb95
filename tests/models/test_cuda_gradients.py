"""The CUDA kernels compute the gradients that the CPU computes, to the bit."""

import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.training.step import LossConfig, make_step
from models.test_gradients import LOSSES, make_case

MODELS = ["TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "SimplE"]


def test_packed_batch():
    """Equal sizes give equal places, whatever the batch; each part is where the kernels look for it."""
    _, batch, _ = make_case("DistMult", LOSSES["logsigmoid"], False, False, False)
    packed = _native.pack_batch(batch)
    positives, negatives = len(batch), len(batch.negative)
    assert list(packed[:2]) == [len(batch.entities), len(batch.relations)]
    parts = [
        batch.head_slot,
        batch.tail_slot,
        batch.relation_slot,
        batch.negative_slot,
        batch.positive_offset,
        batch.positive_occurrence,
        batch.negative_offset,
        batch.negative_occurrence,
        batch.relation_offset,
    ]
    most = 2 * positives + negatives
    room = [positives, positives, positives, negatives, most + 1, 2 * positives, most + 1, negatives, positives + 1]
    at = 2
    for part, size in zip(parts, room):
        assert np.array_equal(packed[at : at + len(part)], part)
        at += size
    assert at == len(packed)


def cpu_gradients(config, batch, tables):
    """What cuda_gradients writes, from the CPU's gradients by leaf; regularization added in the order of RowUpdates."""
    losses, leaves = make_step(config).differentiate(batch, *tables[:2])
    loss = config.loss
    penalties = []
    for table in tables[:2]:
        x = table.embeddings
        factor = np.float32(np.float32(loss.regularization_coefficient) * np.float32(loss.regularization_norm))
        penalties.append(factor * (np.abs(x) * x))
    positive = {}
    occurrences, offsets = batch.positive_occurrence, batch.positive_offset
    both = np.concatenate([leaves["head"], leaves["tail"]])
    for u, entity in enumerate(batch.entities):
        mine = occurrences[offsets[u] : offsets[u + 1]]
        if len(mine):
            total = both[mine[0]].copy()
            for o in mine[1:]:
                total += both[o]
            positive[u] = total + penalties[0][entity]
    return (
        losses,
        positive,
        leaves["negative"] + penalties[0][batch.negative],
        leaves["relation"] + penalties[1][batch.relation],
    )


@pytest.mark.cuda
@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("corrupt_head", [False, True], ids=["tails", "heads"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_same_bits_as_the_cpu(model, loss, corrupt_head, degree_negatives):
    import torch

    settings = {**LOSSES[loss].__dict__, "regularization_coefficient": 1e-3}
    config, batch, tables = make_case(
        model, LossConfig(**settings), corrupt_head, degree_negatives, weighted=corrupt_head
    )
    step = make_step(config)

    def device(array):
        return torch.from_numpy(np.ascontiguousarray(array)).cuda()

    positive = torch.full((len(batch.entities), config.entity_dim), float("nan"), device="cuda")
    negative = torch.empty(len(batch.negative), config.entity_dim, device="cuda")
    relation = torch.empty(len(batch), config.relation_dim, device="cuda")
    sums = torch.zeros(4, dtype=torch.float64, device="cuda")
    workspace = torch.zeros(_native.cuda_workspace_floats(step, batch), device="cuda")
    _native.cuda_gradients(
        step,
        batch,
        device(_native.pack_batch(batch)),
        device(batch.weight) if len(batch.weight) else None,
        device(tables[0].embeddings[batch.entities]),
        device(tables[1].embeddings[batch.relations]),
        positive,
        negative,
        relation,
        sums,
        workspace,
        torch.cuda.current_stream().cuda_stream,
    )
    torch.cuda.synchronize()

    losses, expected_positive, expected_negative, expected_relation = cpu_gradients(config, batch, tables)
    rows = positive.cpu().numpy()
    for u, expected in expected_positive.items():
        assert np.array_equal(rows[u], expected), f"row {u}"
    untouched = [u for u in range(len(rows)) if u not in expected_positive]
    assert np.isnan(rows[untouched]).all()
    assert np.array_equal(negative.cpu().numpy(), expected_negative)
    assert np.array_equal(relation.cpu().numpy(), expected_relation)
    np.testing.assert_allclose(sums[0].item(), losses.positive, rtol=1e-6)
    np.testing.assert_allclose(sums[1].item(), losses.negative, rtol=1e-6)
    np.testing.assert_allclose(sums[3].item() - sums[2].item(), losses.total, rtol=1e-6)
