"""Steps of several machines against all entities: near to float64 autograd over the whole matrix of scores, and of the
same bits whatever the network and the threads do."""
import random

import numpy as np
import pytest
import torch
from threads import compute_with, threads_as_before
from training.full_softmax.oracle import Oracle
from training.full_softmax.steps import (BATCH, ENTITIES, RELATIONS, STEPS, Trained, labels_of, make_batch,
                                         make_config, make_tables)
from training.machines.memory_transport import Network, together
from training.machines.softmax_machines import SoftmaxMachine, owners_of, run_softmax

from dglke_frugal import _native
from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.training.batches.sampler import SamplerConfig
from dglke_frugal.training.full_softmax import tile_products
from dglke_frugal.training.full_softmax.queries import Queries, QuerySampler
from dglke_frugal.training.full_softmax.targets import AllAnswers
from dglke_frugal.training.machines.group import FoundByAll
from dglke_frugal.training.machines.softmax_blocks import PARTS, ROWS, SUMS, WHOLE, floats_of_step
from dglke_frugal.training.machines.softmax_share import MachineShare
from dglke_frugal.training.machines.transport import MachineError

MODELS = ["DistMult", "ComplEx", "SimplE", "RESCAL", "TransE_l2", "TransE_l1", "RotatE"]
DROPPED = dict(entity_dropout=0.4, relation_dropout=0.3, seed=77)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tile_products.HostProducts, "tile_floats", 0)
    monkeypatch.setattr(tile_products.HostProducts, "held_floats", 0)


def batches_of(entities, weighted=False, steps=STEPS):
    return [make_batch(number, entities, weighted) for number in range(steps)]


def assert_agrees(config, machines, entities=ENTITIES, weighted=False, scale=1.0):
    """With the oracle, also in losses."""
    tables, batches = make_tables(config, entities, scale), batches_of(entities, weighted)
    oracle = Oracle(config, *(table.embeddings for table in tables))
    losses, found, _ = run_softmax(config, tables, batches, machines)
    for number, batch in enumerate(batches):
        np.testing.assert_allclose(losses[number].total, oracle.step(batch, number), rtol=2e-5)
        if config.relation_prediction:
            np.testing.assert_allclose(losses[number].relation, oracle.relation_loss, rtol=2e-5)
    for name, expected in zip(("entity", "relation"), oracle.tables):
        np.testing.assert_allclose(found[name], expected.numpy(), rtol=0, atol=3e-4)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["row_adagrad", "adagrad", "adam"])
def test_against_autograd(model, optimizer):
    rate = 1e-3 if optimizer != "row_adagrad" else 0.1  # see training/full_softmax/test_step.py
    assert_agrees(make_config(model, optimizer=optimizer, learning_rate=rate), 2 + MODELS.index(model) % 2)


@pytest.mark.parametrize("model", ["ComplEx", "TransE_l2", "RotatE"])
def test_dropout_and_several_tiles(model, small_tiles):
    """Ranges of the machines end within tiles, and dropout goes by the number of a row among all."""
    assert_agrees(make_config(model, **DROPPED), 3, 1400)


@pytest.mark.parametrize("model, optimizer", [("ComplEx", "adam"), ("RESCAL", "row_adagrad"), ("SimplE", "adagrad")])
def test_relation_prediction(model, optimizer):
    rate = 1e-3 if optimizer != "row_adagrad" else 0.1
    assert_agrees(make_config(model, optimizer=optimizer, learning_rate=rate, relation_prediction=0.7, **DROPPED), 3)


@pytest.mark.parametrize("config, scale", [(make_config("ComplEx", 0.3, regularizer="n3"), 1.0),
                                           (make_config("DistMult", 0.3, 2.5), 1.0),
                                           (make_config("SimplE", 0.0), 4.0)], ids=["n3", "lp", "bounds"])
def test_penalties_and_bounds(config, scale):
    assert_agrees(config, 2, scale=scale)


def test_edge_importance():
    assert_agrees(make_config("ComplEx"), 2, weighted=True)


def test_a_machine_may_own_none_of_a_batch():
    assert_agrees(make_config("ComplEx"), 40, 120)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("model, smoothing, inverse", [("ComplEx", 0.3, False), ("TransE_l2", 0.0, True)])
def test_kvsall(binary, model, smoothing, inverse):
    entities, numbers = 700, np.random.default_rng(1)
    head, tail = numbers.integers(0, 9, 400), numbers.integers(0, entities, 400)
    graph = KnowledgeGraph("g", entities, RELATIONS, Triples(head, numbers.integers(0, RELATIONS, 400), tail))
    config = make_config(model, kvsall=True, label_smoothing=smoothing, learning_rate=0.02, binary=binary)
    relations = 2 * RELATIONS if inverse else RELATIONS
    queries = Queries.of(graph, False, inverse), Queries.of(graph, True, inverse)
    asked = (queries[0].and_others(queries[1]),) if inverse else queries

    def targets(device):
        return AllAnswers(device, asked, entities, relations, smoothing, binary)

    sampler = QuerySampler(graph, queries, SamplerConfig(16, 0, 3, inverse=RELATIONS if inverse else 0))
    batches = [sampler.batch(number) for number in range(STEPS)]
    found = run_softmax(config, make_tables(config, entities, relations=relations), batches, 3, make_targets=targets)
    oracle = Oracle(config, *(table.embeddings for table in make_tables(config, entities, relations=relations)))
    for number, batch in enumerate(batches):
        labels = labels_of(graph, batch, smoothing, binary)
        np.testing.assert_allclose(found[0][number].total, oracle.step(batch, number, labels), rtol=2e-5)
    for name, expected in zip(("entity", "relation"), oracle.tables):
        np.testing.assert_allclose(found[1][name], expected.numpy(), rtol=0, atol=1e-4)


def test_rows_of_length_1():
    config = make_config("TransE_l2", unit_entities=True)
    found = run_softmax(config, make_tables(config, ENTITIES), batches_of(ENTITIES), 3)[1]
    tables = make_tables(config, ENTITIES)
    one = Trained(config, tables)
    for number, batch in enumerate(batches_of(ENTITIES)):
        one.run(batch, number)
    np.testing.assert_allclose(found["entity"], tables[0].embeddings, rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found["entity"], axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_delays_and_threads_change_no_bit(seed, small_tiles):
    """torch's threads and our own, too."""
    numbers = random.Random(seed)
    machines, model = numbers.choice([2, 3, 4]), MODELS[seed]
    config = make_config(model, optimizer="adam", **DROPPED)
    found = []
    with threads_as_before():
        for count, delay in ((1, lambda *_: 0), (3, lambda *_: numbers.choice([0, 0, 0.002]))):
            compute_with(count)
            losses, arrays, _ = run_softmax(config, make_tables(config, 1400), batches_of(1400), machines,
                                            Network(machines, delay))
            found.append((losses, {name: array.tobytes() for name, array in arrays.items()}))
    assert found[0] == found[1]


def test_sums_are_those_in_the_order_of_machines():
    machines, numbers = 3, np.random.default_rng(0)
    values = numbers.normal(size=(machines, 5, 7)).astype(np.float32)
    sums = numbers.normal(size=(machines, 3, 11)).astype(np.float32)
    sums[:, 1] = abs(sums[:, 1])

    def work(machine, transport):
        share = MachineShare(transport, owners_of(10, machines))
        added, combined = (torch.from_numpy(each[machine].copy()) for each in (values, sums))
        share.add(added)
        share.combine(combined)
        return added.numpy(), combined.numpy()

    results = together(Network(machines), work)
    for added, combined in results:
        np.testing.assert_array_equal(added, values[0] + values[1] + values[2])
        np.testing.assert_array_equal(combined, results[0][1])
        exact = np.log((sums[:, 1] * np.exp(sums[:, 0].astype(float))).sum(0))
        np.testing.assert_allclose(combined[0] + np.log(combined[1]), exact, rtol=1e-5)
        np.testing.assert_array_equal(combined[2], sums[0, 2] + sums[1, 2] + sums[2, 2])


@pytest.mark.parametrize("machines", [2, 3])
@pytest.mark.parametrize("binary", [False, True])
def test_what_machines_send_is_what_the_plan_counts(machines, binary):
    config = make_config("ComplEx", kvsall=binary, binary=binary)
    batches = batches_of(ENTITIES)

    def targets(device):
        key = np.arange(ENTITIES * RELATIONS)
        every = Queries(key, np.arange(len(key) + 1), np.zeros(len(key), np.int64), key)
        return AllAnswers(device, (every, every), ENTITIES, RELATIONS, 0.0, True)

    _, _, found = run_softmax(config, make_tables(config, ENTITIES), batches, machines,
                              make_targets=targets if binary else None)
    sent = sum(sum(machine.share.traffic.bytes.values()) for machine in found)
    planned = sum(floats_of_step(machines, len(batch.entities), BATCH, config.step.entity_dim, binary)
                  for batch in batches)
    assert sent == pytest.approx(4 * machines * planned, abs=0.5)


# ---- mistakes


@pytest.mark.parametrize("name", [ROWS, SUMS, PARTS, WHOLE])
def test_a_block_that_another_machine_does_not_use_shows(name):
    config = make_config("ComplEx")
    right = run_softmax(config, make_tables(config, ENTITIES), batches_of(ENTITIES), 3)[1]

    def mutate(machine):
        checked = machine.share._checked

        def without(block, blocks, given, *more):
            found = checked(block, blocks, given, *more)
            return [0 * part if block == name and at == 1 else part for at, part in enumerate(found)]

        machine.share._checked = without

    wrong = run_softmax(config, make_tables(config, ENTITIES), batches_of(ENTITIES), 3, mutate=mutate)[1]
    assert abs(wrong["entity"] - right["entity"]).max() > 1e-3


def test_a_stale_block_is_refused():
    config, kept = make_config("ComplEx"), {}

    def tamper(lane, number, sender, receiver, block):
        earlier = kept.setdefault((sender, receiver, number % 4), block)
        return earlier if number > 6 else block

    ids = np.arange(BATCH)  # the same in each step, so that all blocks have the same sizes
    same = [_native.make_batch(ids, ids % RELATIONS, ids + BATCH, np.empty(0, np.int64), False, 1, ENTITIES, RELATIONS,
                               step=step) for step in range(STEPS)]
    with pytest.raises((MachineError, AssertionError)) as refused:
        run_softmax(config, make_tables(config, ENTITIES), same, 2, Network(2, tamper=tamper))
    assert "has sent another block than the one that is due" in str(refused.value) or "failed" in str(refused.value)


def test_relations_that_are_not_alike_are_refused_by_all():
    config, batches = make_config("ComplEx"), batches_of(ENTITIES)

    def work(machine, transport):
        each = SoftmaxMachine(config, make_tables(config, ENTITIES), transport)
        if machine == 1:
            row = each.tables.relation.embeddings[batches[0].relations[0]]
            row[0] = np.nextafter(row[0], np.float32(1))
        with pytest.raises(FoundByAll) as refused:
            each.train(batches)
        return str(refused.value)

    assert {sentence.partition(":")[0] for sentence in together(Network(3), work)} == {
        "machine 1 has computed other relations than machine 0, before step 0"}


def test_a_signal_is_read_by_all_after_the_same_step():
    config = make_config("ComplEx")
    batches = batches_of(ENTITIES)

    def work(machine, transport):
        each = SoftmaxMachine(config, make_tables(config, ENTITIES), transport)
        each.share.own_signal = 15 if machine == 1 else 0
        seen = [each.share.signal]
        each.train(batches[:1])
        return [*seen, each.share.signal]

    assert together(Network(3), work) == [[0, 15]] * 3
