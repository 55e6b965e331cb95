"""Ranks as threads over shared stores, on a graph so small that several ranks touch the same rows all the time."""
import time

import numpy as np
from threads import at_once
from training.parallel.ranks_oracle import Oracle

from dglke_frugal import _native
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.rows.half_embeddings import Rounding
from dglke_frugal.store.rows.in_step_sync import exchanged_floats
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.processes.step_exchange import ExchangeFloats
from dglke_frugal.training.step.make_step import make_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig
from dglke_frugal.training.tables.tables import ENTRIES

ENTITIES, RELATIONS, STEPS, BATCH = 90, 7, 24, 16
NOISE = (2**35 + 11, 3)  # seed and table
SETTINGS = [({"lookahead": 1, "flush_threads": 1}, 0),  # of flushing, with slots of the cache
            ({"lookahead": 2, "flush_threads": 3}, 5),
            ({"lookahead": 10, "policy": "lfu"}, 30),
            ({"mode": "sync", "lookahead": 3}, 90),
            ({"mode": "sync", "flush_threads": 1}, 0)]


def step_config(model="TransE_l2", rule="textbook", **loss):
    return StepConfig(model, 12, {"RESCAL": 144, "TransR": 6, "RotatE": 6}.get(model, 12), 8.0, 0.5, 0.1,
                      LossConfig(**{"regularization_coefficient": 1e-3, **loss}), score_rule=rule)


def initial_values(config, element="fp32"):
    """element: what the entities are kept in, whose values these are."""
    random = np.random.default_rng(5)
    shapes = {"entity": (ENTITIES, config.entity_dim), "relation": (RELATIONS, config.relation_dim)}
    if config.model == "TransR":
        shapes["projection"] = (RELATIONS, config.entity_dim * config.relation_dim)
    values = {name: random.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    if element != "fp32":
        values["entity"] = np.round(values["entity"] * 256) / np.float32(256)  # as a half of either kind
    return values


def samplers(ranks, batch_size=BATCH, negatives=8):
    random = np.random.default_rng(7)
    head, tail = (np.minimum(random.zipf(1.4, 600) - 1, ENTITIES - 1) for _ in range(2))
    relation = random.integers(RELATIONS, size=600)
    return [Sampler(head, relation, tail, ENTITIES, RELATIONS, SamplerConfig(batch_size, negatives, 3, rank, ranks))
            for rank in range(ranks)]


def run_oracle(config, ranks, steps=STEPS, element="fp32", negatives=8):
    rounding = None if element == "fp32" else (element, *NOISE)
    oracle, sources = Oracle(config, initial_values(config, element), rounding), samplers(ranks, negatives=negatives)
    for step in range(steps):
        oracle.train([source.batch(step) for source in sources])
    return oracle.arrays()


def shared_segment(ranks, scores, weights, squares):
    """Memory of an exchange between threads."""
    size = _native.exchange_bytes(ranks, scores, weights, squares)
    lines = np.zeros(size + 128, np.uint8)
    return lines[-lines.ctypes.data % 128 :][:size]


class ThreadRanks:
    """Threads that train through stores as processes would, each with its own client, cache, step and device.

    make_device: of each rank a store.device.Device to compute on, or None for csrc/step.
    """

    def __init__(self, config, ranks, flush, delay=0.0, entity_slots=20, make_device=lambda: None, element="fp32",
                 negatives=8):
        self.config, self.ranks, self.flush, self.delay, self.negatives = config, ranks, flush, delay, negatives
        self.errors = []
        self.devices = [make_device() for _ in range(ranks)]
        self.stores = [{} for _ in range(ranks)]
        random = np.random.default_rng(11)
        for name, values in initial_values(config, element).items():
            if name != "entity":
                self._replicate(name, values)
                continue
            exchanges = [None] * ranks
            if flush.get("mode") == "direct":
                floats = exchanged_floats(48)
                segment = shared_segment(ranks, floats, 1, 4)
                exchanges = [_native.Exchange(segment, rank, ranks, floats, 1, 4) for rank in range(ranks)]
            self.collectives = exchanges
            rounding = None if element == "fp32" else Rounding(element, *NOISE)
            slots = min(len(values), entity_slots)
            hot = [random.permutation(len(values)) for _ in range(ranks)]
            store = EmbeddingStore(*values.shape, config.learning_rate, hot_rows=hot, device=self.devices[0],
                                   rounding=rounding, exchange=exchanges[0],
                                   flushing=FlushConfig(48, 2, ranks, slots=slots,
                                                        staging_bytes=4 << 20, **flush))
            store.embeddings[:] = values
            self.stores[0][name] = store
            for rank in range(1, ranks):
                self.stores[rank][name] = EmbeddingStore.attach(store.address, rank, config.learning_rate,
                                                                self.devices[rank], rounding=rounding,
                                                                exchange=exchanges[rank])

    def _replicate(self, name, values):
        rows, dim = values.shape
        most, entries = min(rows, BATCH), ENTRIES[name]
        size = ExchangeFloats.of_sums(most, dim, entries)
        segment = shared_segment(self.ranks, size.scores, size.weights, size.squares)
        for rank, stores in enumerate(self.stores):
            exchange = _native.Exchange(segment, rank, self.ranks, size.scores, size.weights, size.squares)
            table = _native.HostTable(self.stores[0][name].path, rows, dim) if rank else None
            stores[name] = EmbeddingStore(rows, dim, self.config.learning_rate, shared=True, table=table,
                                          device=self.devices[rank],
                                          replica=_native.Replica(exchange, most, dim, entries))
        self.stores[0][name].embeddings[:] = values

    def run(self, steps=STEPS):
        at_once(lambda rank: self._guarded(rank, steps), self.ranks)

    def _guarded(self, rank, steps):
        try:
            self._train(rank, steps)
        except BaseException as error:
            self.errors.append(error)
            for store in (*self.stores[rank].values(), *filter(None, self.collectives)):
                store.fail(f"rank {rank}: {error}")

    def _train(self, rank, steps):
        stores, sampler = self.stores[rank], samplers(self.ranks, negatives=self.negatives)[rank]
        step = make_step(self.config, threads=1, device=self.devices[rank], matmul="fp32")
        random = np.random.default_rng(rank)
        lookahead = self.flush.get("lookahead", 10)
        window, announced = [], 0
        for current in range(steps):
            for announced in range(announced, min(steps, current + lookahead + 1)):
                window.append(sampler.batch(announced))
                stores["entity"].steps.announce_entities(window[-1])
                stores["relation"].steps.announce_relations(window[-1])
                if "projection" in stores:
                    stores["projection"].steps.announce_projections(window[-1])
            announced = len(window) + current
            if self.delay:
                time.sleep(random.exponential(self.delay))
            for store in stores.values():
                store.steps.begin(current)
            step.run_rows(window.pop(0), *(store.steps for store in stores.values()))
            for store in stores.values():
                store.steps.end()
        for store in stores.values():
            store.drain()

    def arrays(self):
        assert not self.errors, self.errors
        return {f"{name}{suffix}": np.array(array) for name, store in self.stores[0].items()
                for suffix, array in (("", store.embeddings[:]), ("_state", store.state))}

    def close(self):
        for stores in reversed(self.stores):
            for store in stores.values():
                store.close()


def trained_by_threads(config, ranks, flush, **options):
    run = ThreadRanks(config, ranks, flush, **options)
    try:
        run.run()
        return run.arrays(), run.stores[0]["entity"].statistics()["ranks"]
    finally:
        run.close()
