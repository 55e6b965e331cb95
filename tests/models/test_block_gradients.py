"""A step's packed block, and the gradients that are computed from it: on every device the CPU's, to the bit."""

import numpy as np
import pytest
import torch
from devices import device  # noqa: F401
from models.test_gradients import LOSSES, make_case

from dglke_frugal import _native
from dglke_frugal.models import find_model
from dglke_frugal.store.rows.device_rows import DeviceRows
from dglke_frugal.training.step.device_batch import BatchForm, BlockTransfer
from dglke_frugal.training.step.device_kernels import KernelGradients
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import KERNEL_MODELS, LossConfig, StepConfig

SCRATCH = 100_000  # beyond the rows of any table here
BUILT_IN = [model for model in KERNEL_MODELS if model != "TransE"]


def layout_for(batch, entities, relations):
    tables = [("entity", entities, SCRATCH, False), ("relation", relations, SCRATCH, False)]
    return _native.StepBlock(len(batch), batch.chunk_size, batch.negatives_per_chunk, batch.weighted, tables)


def unpack(layout, block):
    return {name: block[begin : begin + np.dtype(dtype).itemsize * length].view(dtype)
            for name, dtype, begin, length in layout.fields}


@pytest.mark.parametrize("weighted", [False, True])
def test_packed_block(weighted):
    """Each array is where its field says, whatever was there before; rows beyond the batch's only pad."""
    _, batch, _ = make_case("DistMult", LOSSES["logsigmoid"], False, False, weighted)
    entities, relations = len(batch.entities) + 5, len(batch.relations) + 3
    layout = layout_for(batch, entities, relations)
    block = np.full(layout.bytes, 99, np.uint8)
    layout.pack(batch, block)
    packed = unpack(layout, block)
    assert list(packed.pop("step")) == [batch.step]
    assert list(packed.pop("counts")) == [len(batch.entities), len(batch.relations)]
    for name, ids, rows in (("entity", batch.entities, entities), ("relation", batch.relations, relations)):
        assert list(packed.pop(f"{name}_rows")) == [*ids, *[SCRATCH] * (rows - len(ids))]
    occurs = np.flatnonzero(np.diff(batch.positive_offset))
    order, offset = packed.pop("sum_order"), packed.pop("sum_offset")
    assert len(offset) == entities + 1 and offset[-1] == len(occurs)
    for u in range(entities):
        assert list(order[offset[u] : offset[u + 1]]) == ([u] if u in occurs else [])
    for name, found in packed.items():
        if name.endswith("busy"):
            continue
        wanted = getattr(batch, name)
        np.testing.assert_array_equal(found[: len(wanted)], wanted, err_msg=name)
        if name.endswith("offset"):
            assert (found[len(wanted) :] == wanted[-1]).all(), name
        else:
            assert len(found) == len(wanted), name


@pytest.mark.parametrize("relations", [1, 3, 60])
def test_busy_rows_are_listed_with_the_busiest_first(relations):
    """Gradients of an entity: one of all its positives, and one of each of its negatives."""
    random = np.random.default_rng(relations)
    head, tail, negative = ((30 * random.random(count) ** 3).astype(np.int64) for count in (64, 64, 96))
    batch = _native.make_batch(head, random.integers(0, relations, 64), tail, negative, False, 16, 30, relations)
    layout = layout_for(batch, 40, 70)
    block = np.full(layout.bytes, 99, np.uint8)
    layout.pack(batch, block)
    packed = unpack(layout, block)
    occurs = np.isin(batch.entities, [head, tail])
    gradients = {"entity": occurs + np.array([(negative == entity).sum() for entity in batch.entities]),
                 "relation": np.array([(batch.relation == relation).sum() for relation in batch.relations])}
    for name, counts in gradients.items():
        busy = sorted((-count, row) for row, count in enumerate(counts) if count > _native.FEW_OCCURRENCES)
        found = packed[f"{name}_busy"]
        assert list(found[: len(busy) + 1]) == [len(busy), *(row for _, row in busy)], name
        assert not found[len(busy) + 1 :].any(), name
        assert busy or relations == 60, name


def test_a_block_takes_its_own_sizes_alone():
    _, batch, _ = make_case("DistMult", LOSSES["logsigmoid"], False, False, False)
    enough = len(batch.entities), len(batch.relations)
    _, weighted, _ = make_case("DistMult", LOSSES["logsigmoid"], False, False, True)
    layout = layout_for(batch, *enough)
    block = np.zeros(layout.bytes, np.uint8)
    with pytest.raises(ValueError, match="other sizes"):
        layout.pack(weighted, block)
    with pytest.raises(ValueError, match="another size"):
        layout.pack(batch, block[1:])
    small = layout_for(batch, enough[0] - 1, enough[1])
    with pytest.raises(ValueError, match=f"room for {enough[0] - 1} entity rows, not {enough[0]}"):
        small.pack(batch, np.zeros(small.bytes, np.uint8))
    with pytest.raises(ValueError, match="whole chunks"):
        _native.StepBlock(5, 2, 4, False, [("entity", 9, 9, False), ("relation", 9, 9, False)])
    assert not block.any()


class GivenRows(DeviceRows):
    """Rows of a table in host memory."""

    planned = False

    def gather(self, plan, records):
        records.zero_()
        found = plan.rows < self.table.rows
        records[found] = torch.from_numpy(self.table.records).to(records.device)[plan.rows[found]]


def cpu_gradients(config, batch, tables):
    """The same gradients from those by part of an edge; regularization added in the order of RowUpdates."""
    losses, edges = native_step(config).differentiate(batch, *tables[:2])
    loss = config.loss
    penalties = []
    for table in tables[:2]:
        x = table.embeddings
        factor = np.float32(np.float32(loss.regularization_coefficient) * np.float32(loss.regularization_norm))
        penalties.append(factor * (np.abs(x) * x))
    positive = {}
    occurrences, offsets = batch.positive_occurrence, batch.positive_offset
    both = np.concatenate([edges["head"], edges["tail"]])
    for u, entity in enumerate(batch.entities):
        mine = occurrences[offsets[u] : offsets[u + 1]]
        if len(mine):
            total = both[mine[0]].copy()
            for o in mine[1:]:
                total += both[o]
            positive[u] = total + penalties[0][entity]
    negative, relation = (edges["negative"] + penalties[0][batch.negative],
                          edges["relation"] + penalties[1][batch.relation])
    return losses, positive, negative, relation


def penalty_of(config, batch, tables):
    """Over every row that is read, in float64."""
    entities, relations = (np.abs(table.embeddings.astype(np.float64)) ** 3 for table in tables[:2])
    among_positives = np.unique(np.concatenate([batch.head, batch.tail]))
    rows = entities[among_positives].sum() + entities[batch.negative].sum() + relations[batch.relation].sum()
    return config.loss.regularization_coefficient * rows


def differentiate_twice(config, batch, tables, device, matmul="fp32"):
    """Gradients of positives' rows, negatives and relations, and the losses of both times together: a used workspace
    is as good as a new one."""
    layout = layout_for(batch, len(batch.entities) + 5, len(batch.relations) + 3)
    given = [GivenRows(table, device, 0) for table in tables[:2]]
    transfer = BlockTransfer(device, layout, given)
    sums, found = device.zeros(4, dtype=np.float64), []
    form = BatchForm(len(batch), batch.chunks, batch.negatives_per_chunk, False, batch.weighted)
    compute = KernelGradients(config, device, sums, matmul).of_block(form, transfer.blocks[transfer.send(batch)], given)
    for _ in range(2):
        device.submit(lambda: found.append(compute(batch.corrupt_head)))
    device.synchronize()
    of_entities, of_relations = found[1]
    return [gradient.cpu().numpy() for gradient, *_ in (*of_entities, *of_relations)], np.array(sums.tolist())


def assert_same_bits(config, batch, tables, device):
    """The gradients of `batch` on `device` against the CPU's."""
    (rows, negative, relation), sums = differentiate_twice(config, batch, tables, device)
    losses, expected_positive, expected_negative, expected_relation = cpu_gradients(config, batch, tables)
    for u, expected in expected_positive.items():
        assert np.array_equal(rows[u], expected), f"row {u}"
    untouched = [u for u in range(len(rows)) if u not in expected_positive]
    assert not rows[untouched].any()
    assert np.array_equal(negative, expected_negative)
    assert np.array_equal(relation, expected_relation)
    penalty = penalty_of(config, batch, tables)
    expected_sums = 2 * np.array([losses.positive, losses.negative, penalty, losses.total + penalty])
    np.testing.assert_allclose(sums, expected_sums, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("corrupt_head", [False, True], ids=["tails", "heads"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", BUILT_IN)
def test_same_bits_as_the_cpu(model, loss, corrupt_head, degree_negatives, device):
    settings = {**LOSSES[loss].__dict__, "regularization_coefficient": 1e-3}
    case = make_case(model, LossConfig(**settings), corrupt_head, degree_negatives, weighted=corrupt_head)
    assert_same_bits(*case, device)


@pytest.mark.parametrize("scale", [1.0, 1e-14], ids=["usual", "tiny"])  # squares of tiny numbers are subnormal
@pytest.mark.parametrize("chunk, chunks, negatives, hidden, degree_negatives", [
    (256, 4, 256, 400, False), (70, 3, 37, 50, True), (5, 7, 130, 127, False), (64, 1, 1, 2, True),
    (1, 9, 70, 1000, False)])
@pytest.mark.parametrize("model", BUILT_IN)
def test_same_bits_beyond_a_tile(model, chunk, chunks, negatives, hidden, degree_negatives, scale, device):
    hidden += hidden % 2 if model == "ComplEx" else 0
    dims = find_model(model).dims(hidden, *find_model(model).doubled)
    random = np.random.default_rng(hidden)
    tables = [_native.HostTable(3000, dims.entity), _native.HostTable(30, dims.relation)]
    for table in tables:
        table.embeddings[:] = scale * random.uniform(-1, 1, (table.rows, table.dim))
    batch = _native.make_batch(
        random.integers(0, 3000, chunk * chunks),
        random.integers(0, 30, chunk * chunks),
        (3000 * random.random(chunk * chunks) ** 9).astype(np.int64),  # a few of them often
        random.integers(0, 3000, chunks * negatives),
        hidden % 4 == 0,
        chunk,
        3000,
        30)
    loss = LossConfig(adversarial=True, regularization_coefficient=1e-6)
    config = StepConfig(model, dims.entity, dims.relation, 12.0, 0.5, 0.1, loss, degree_negatives)
    assert_same_bits(config, batch, tables, device)
