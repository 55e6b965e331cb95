"""Ranks as threads with some columns each: the tables of plain loops to the bit, whatever the settings and delays."""
import threading
import time

import numpy as np
import pytest
from devices import make_device
from ranks.columns_oracle import ColumnsOracle, columns_of_rank
from ranks.thread_ranks import assert_same

from dglke_frugal import _native
from dglke_frugal.models import find_model, model_names
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.training.columns.column_exchange import ExchangeSize
from dglke_frugal.training.columns.column_config import own_step
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.ranks.peers import RankError
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

ENTITIES, RELATIONS, STEPS, BATCH, NEGATIVES, DIM = 90, 7, 12, 32, 8, 24


def step_config(model, **loss):
    relation = DIM // 2 if model == "RotatE" else DIM
    return StepConfig(model, DIM, relation, 8.0, 0.5, 0.1, LossConfig(**{"regularization_coefficient": 1e-3, **loss}))


def initial_values(config):
    random = np.random.default_rng(5)
    shapes = {"entity": (ENTITIES, config.entity_dim), "relation": (RELATIONS, config.relation_dim)}
    return {name: random.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def make_sampler():
    random = np.random.default_rng(7)
    head, tail = (np.minimum(random.zipf(1.4, 600) - 1, ENTITIES - 1) for _ in range(2))
    return Sampler(head, random.integers(RELATIONS, size=600), tail, ENTITIES, RELATIONS,
                   SamplerConfig(BATCH, NEGATIVES, 3))


def halves_of(config):
    return dict(zip(("entity", "relation"), find_model(config.model).halves))


def oracle_arrays(config, ranks):
    oracle = ColumnsOracle(own_step(config, ranks), initial_values(config), halves_of(config), ranks)
    sampler = make_sampler()
    for step in range(STEPS):
        oracle.train(sampler.batch(step))
    return oracle.arrays()


class Exchange:
    """A StepExchange of threads."""

    def __init__(self, native):
        self.native = native

    def check(self):
        if self.native.sentence:
            raise RankError(self.native.sentence)


class ColumnThreads:
    """Threads that train slices as processes would, each with its own store, step and device."""

    def __init__(self, config, ranks, flush, device="cpu", delay=0.0, fails=-1):
        self.ranks, self.delay, self.fails, self.errors = ranks, delay, fails, []
        self.own, self.sampler = own_step(config, ranks), make_sampler()
        size = ExchangeSize(self.own, self.sampler, ENTITIES, RELATIONS)
        lines = np.zeros(size.bytes(ranks) + 128, np.uint8)
        self.segment = lines[-lines.ctypes.data % 128 :][: size.bytes(ranks)]
        self.halves, self.initial = halves_of(config), initial_values(config)
        self.devices = [make_device(device) for _ in range(ranks)]
        self.exchanges = [Exchange(_native.ColumnExchange(self.segment, rank, ranks, size.scores, size.squares))
                          for rank in range(ranks)]
        self.stores = [self._stores(rank, flush) for rank in range(ranks)]

    def _stores(self, rank, flush):
        stores = {}
        for name, values in self.initial.items():
            own = values[:, columns_of_rank(values.shape[1], self.halves[name], rank, self.ranks)]
            flushing = None
            if flush is not None and name == "entity":
                flushing = FlushConfig(2 * BATCH + NEGATIVES * BATCH // NEGATIVES, **flush)
            stores[name] = EmbeddingStore(*own.shape, self.own.learning_rate, flushing=flushing,
                                          hot_rows=[np.arange(ENTITIES)], device=self.devices[rank])
            stores[name].embeddings[:] = own
        return stores

    def run(self):
        threads = [threading.Thread(target=self._guarded, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

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
        self.exchanges[rank].check()

    def arrays(self):
        assert not self.errors, self.errors
        found = {}
        for name, values in self.initial.items():
            whole = np.empty_like(values)
            for rank, stores in enumerate(self.stores):
                own = columns_of_rank(values.shape[1], self.halves[name], rank, self.ranks)
                whole[:, own] = stores[name].embeddings
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


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("model", [name for name in model_names() if find_model(name).halves])
def test_tables_are_those_of_plain_loops(model, ranks):
    config = step_config(model, adversarial=model != "TransE_l1")
    assert_same(trained(config, ranks), oracle_arrays(config, ranks))


SETTINGS = [{"slots": 20, "value_path": "host_row"}, {"slots": 0, "value_path": "host_row", "host_read": "copy"},
            {"slots": 60, "policy": "lru", "lookahead": 1}, {"slots": 90, "mode": "sync", "flush_threads": 1}]


@pytest.mark.parametrize("flush", SETTINGS)
@pytest.mark.parametrize("loss", [{"adversarial": True}, {"genre": "Hinge", "pairwise": True}])
def test_no_setting_and_no_delay_changes_a_bit(flush, loss):
    config = step_config("TransE_l2", **loss)
    assert_same(trained(config, 3, flush, device="queued", delay=0.002), oracle_arrays(config, 3))


def test_a_rank_that_fails_ends_all():
    threads = ColumnThreads(step_config("DistMult"), 3, None, fails=5)
    threads.run()
    threads.close()
    assert sorted(map(str, threads.errors)) == ["rank 1: the disk is on fire"] * 2 + ["the disk is on fire"]
