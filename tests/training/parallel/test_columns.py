"""Ranks as threads with some columns each: the tables of plain loops to the bit, whatever the settings and delays."""
import itertools
import time

import numpy as np
import pytest
from devices import make_device, run_step
from threads import at_once
from training.parallel.columns_oracle import ColumnsOracle, columns_of_rank
from training.parallel.conftest import assert_same
from training.parallel.thread_ranks import ENTITIES, NOISE, RELATIONS, initial_values, samplers, shared_segment

from dglke_frugal import _native
from dglke_frugal.models import find_model, model_names
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.rows.half_embeddings import Rounding
from dglke_frugal.training.parallel.column_run import exchange_floats
from dglke_frugal.training.plan.column_config import Columns, shard_step
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.processes.process_group import RankError
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

STEPS, BATCH, NEGATIVES, DIM = 12, 32, 8, 24


def step_config(model, **loss):
    doubled = find_model(model).doubled
    dims = find_model(model).dims(DIM // (1 + doubled[0]), *doubled)
    return StepConfig(model, dims.entity, dims.relation, 8.0, 0.5, 0.1,
                      LossConfig(**{"regularization_coefficient": 1e-3, **loss}))


def make_sampler():
    return samplers(1, BATCH, NEGATIVES)[0]


def halves_of(config):
    return dict(zip(("entity", "relation"), find_model(config.model).halves))


def trained_oracle(config, ranks, element="fp32"):
    rounding = None if element == "fp32" else (element, *NOISE)
    oracle = ColumnsOracle(shard_step(config, ranks), initial_values(config, element), halves_of(config), ranks,
                           rounding)
    sampler = make_sampler()
    for step in range(STEPS):
        oracle.train(sampler.batch(step))
    return oracle


def oracle_arrays(config, ranks, element="fp32"):
    return trained_oracle(config, ranks, element).arrays()


class Exchange:
    """A StepExchange of threads, on the CPU."""

    peer = False

    def __init__(self, native):
        self.native = native

    def check(self):
        if self.native.sentence:
            raise RankError(self.native.sentence)


class ColumnThreads:
    """Threads that train slices as processes would, each with its own store, step and device."""

    def __init__(self, config, ranks, flush, device="cpu", delay=0.0, fails=-1, element="fp32"):
        self.ranks, self.delay, self.fails, self.errors, self.element = ranks, delay, fails, [], element
        self.losses = {}  # by rank
        self.own, self.sampler = shard_step(config, ranks), make_sampler()
        size = exchange_floats(self.own, self.sampler, ENTITIES, RELATIONS)
        self.segment = shared_segment(ranks, size.scores, size.weights, size.squares)
        self.halves, self.initial = halves_of(config), initial_values(config, element)
        self.devices = [make_device(device) for _ in range(ranks)]
        self.exchanges = [Exchange(_native.Exchange(self.segment, rank, ranks, size.scores, size.weights,
                                                    size.squares))
                          for rank in range(ranks)]
        self.shared = {}  # tables of rank 0, whose parts the others have
        self.stores = [self._stores(rank, flush) for rank in range(ranks)]
        if self.shared:
            rows = [stores["entity"].steps.transfer for stores in self.stores]
            for each, exchange in zip(rows, self.exchanges):
                each.connect(exchange.native, [other.handle for other in rows])

    def _stores(self, rank, flush):
        stores = {}
        for name, values in self.initial.items():
            own = values[:, columns_of_rank(values.shape[1], self.halves[name], rank, self.ranks)]
            flushing = None
            if flush is not None and name == "entity":
                flushing = FlushConfig(2 * BATCH + NEGATIVES * BATCH // NEGATIVES, keeps_reused=True, **flush)
            rounding = None
            if self.element != "fp32" and name == "entity":
                columns = Columns(values.shape[1], self.halves[name], self.ranks)
                rounding = Rounding(self.element, *NOISE, columns.ranges(rank))
            table = self._part(name, rank, *own.shape, rounding) if flushing and flushing.owner_transfer else None
            stores[name] = EmbeddingStore(*own.shape, self.own.learning_rate, flushing=flushing, table=table,
                                          hot_rows=[np.arange(ENTITIES)], device=self.devices[rank], rounding=rounding)
            stores[name].embeddings[:] = own
        return stores

    def _part(self, name, rank, rows, dim, rounding):
        """A rank's part of a table whose rows their owners move."""
        first = self.shared.get(name)
        kind = {"element": rounding.element if rounding else "fp32", "part": rank, "parts": self.ranks}
        table = _native.HostTable(first.path, rows, dim, **kind) if first else _native.HostTable(rows, dim, True,
                                                                                                 **kind)
        return self.shared.setdefault(name, table) if rank == 0 else table

    def run(self):
        at_once(self._guarded, self.ranks)

    def _guarded(self, rank):
        try:
            self._train(rank)
        except Exception as error:
            self.errors.append(error)
            self.exchanges[rank].native.fail(f"rank {rank}: {error}")

    def _train(self, rank):
        step = DeviceStep(self.own, self.devices[rank], exchange=self.exchanges[rank])
        rows = [store.steps for store in self.stores[rank].values()]
        random = np.random.default_rng(rank)
        for number in range(STEPS):
            if number == self.fails and rank == 1:
                raise RuntimeError("the disk is on fire")
            if self.delay:
                time.sleep(random.exponential(self.delay))
            batch = self.sampler.batch(number)
            rows[0].announce_entities(batch)
            rows[1].announce_relations(batch)
            for each in rows:
                each.begin(number)
            step.run_rows(batch, *rows)
            for each in rows:
                each.end()
        for store in self.stores[rank].values():
            store.drain()
        self.losses[rank] = step.take_losses()
        self.exchanges[rank].check()

    def arrays(self):
        assert not self.errors, self.errors
        found = {}
        for name, values in self.initial.items():
            whole = np.empty_like(values)
            for rank, stores in enumerate(self.stores):
                own = columns_of_rank(values.shape[1], self.halves[name], rank, self.ranks)
                whole[:, own] = stores[name].embeddings[:]
                np.testing.assert_array_equal(stores[name].state, self.stores[0][name].state)
            found[name], found[f"{name}_state"] = whole, np.array(self.stores[0][name].state)
        return found

    def close(self):
        for stores in self.stores:
            for store in stores.values():
                store.close()


def trained(config, ranks, flush=None, **options):
    threads = ColumnThreads(config, ranks, flush, **options)
    try:
        threads.run()
        return threads.arrays()
    finally:
        threads.close()


@pytest.mark.parametrize("element", ["fp32", "fp16"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("model", [name for name in model_names() if find_model(name).halves])
def test_tables_are_those_of_plain_loops(model, ranks, element):
    config = step_config(model, adversarial=model != "TransE_l1")
    assert_same(trained(config, ranks, element=element), oracle_arrays(config, ranks, element))


CACHES = [{"slots": 0}, {"slots": 20}, {"slots": 60, "policy": "lfu", "lookahead": 1}, {"slots": 90}]


@pytest.mark.parametrize("flush", [None, *({"mode": "direct", **cache} for cache in CACHES)])
@pytest.mark.parametrize("model, element, loss", [
    ("TransE_l2", "fp32", {"adversarial": True}), ("TransE_l2", "fp32", {"genre": "Hinge", "pairwise": True}),
    ("ComplEx", "fp16", {"adversarial": True})])
def test_no_setting_and_no_delay_changes_a_bit(model, element, loss, flush):
    config = step_config(model, **loss)
    assert_same(trained(config, 3, flush, device="queued", delay=0.002, element=element),
                oracle_arrays(config, 3, element))


OWNER_TRANSFER = {"mode": "direct", "owner_transfer": True}


@pytest.mark.parametrize("model, element, ranks, flush, device", [
    *itertools.product(["TransE_l2"], ["fp32"], [1, 2, 3, 4], CACHES[:3], ["cpu", "queued", "late write-backs"]),
    *itertools.product(["TransE_l2", "ComplEx"], ["fp16"], [3], CACHES[1:3], ["queued"])])
def test_rows_that_owners_move_are_those_of_plain_loops(model, element, ranks, flush, device):
    config = step_config(model, adversarial=True)
    assert_same(trained(config, ranks, {**OWNER_TRANSFER, **flush}, device=device, delay=0.001, element=element),
                oracle_arrays(config, ranks, element))


@pytest.mark.parametrize("model, dim, ranks", [
    ("TransE_l2", 400, 2), ("TransE_l2", 402, 3), ("DistMult", 400, 4), ("ComplEx", 400, 2), ("RotatE", 1200, 3),
    ("RotatE", 400, 4)])
def test_columns_begin_within_blocks_of_noise(monkeypatch, model, dim, ranks):
    """At columns that are no multiples of 256 or 32, in two places of a row for models that need that."""
    monkeypatch.setattr("training.parallel.test_columns.DIM", dim)
    monkeypatch.setattr("training.parallel.test_columns.STEPS", 3)
    config = step_config(model)
    assert_same(trained(config, ranks, {"slots": 20, "mode": "direct"}, element="fp16"),
                oracle_arrays(config, ranks, "fp16"))


def test_one_process_leaves_the_bits_of_one_rank():
    """Without an exchange, in rows of its own."""
    config, element = step_config("TransE_l2"), "fp16"
    device = make_device("cpu")
    stores = [EmbeddingStore(*values.shape, config.learning_rate, device=device,
                             rounding=Rounding(element, *NOISE) if name == "entity" else None)
              for name, values in initial_values(config, element).items()]
    for store, values in zip(stores, initial_values(config, element).values()):
        store.embeddings[:] = values
    step, sampler = DeviceStep(config, device), make_sampler()
    for number in range(STEPS):
        run_step(step, number, sampler.batch(number), [store.steps for store in stores])
    expected = oracle_arrays(config, 1, element)
    for name, store in zip(("entity", "relation"), stores):
        store.drain()
        np.testing.assert_array_equal(store.embeddings[:], expected[name])
        np.testing.assert_array_equal(store.state, expected[f"{name}_state"])


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_logs_the_losses_of_the_whole_batch(ranks):
    config = step_config("TransE_l2", adversarial=True)
    threads = ColumnThreads(config, ranks, None)
    threads.run()
    threads.close()
    expected = np.mean(trained_oracle(config, ranks).losses, axis=0)
    for rank in range(ranks):
        logged = threads.losses[rank]
        assert (logged.positive, logged.negative) == pytest.approx(tuple(expected), rel=1e-6)
        assert (logged.positive, logged.negative) == (threads.losses[0].positive, threads.losses[0].negative)


@pytest.mark.parametrize("flush", [None, {**OWNER_TRANSFER, "slots": 20}])
def test_a_rank_that_fails_ends_all(flush):
    threads = ColumnThreads(step_config("DistMult"), 3, flush, fails=5)
    threads.run()
    threads.close()
    assert sorted(map(str, threads.errors)) == ["rank 1: the disk is on fire"] * 2 + ["the disk is on fire"]
