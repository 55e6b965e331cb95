"""A run of several ranks that each have some columns of every row (column_config.py), each a process with a GPU."""

from __future__ import annotations

import os
from typing import Optional

from ... import _native
from ..batches.sampler import BatchRing, Sampler, SamplerConfig
from ..batches.subsampling import triple_weights
from ..plan.column_config import STEPS_AHEAD, joined_batch_size, shard_config, shard_step
from ..plan.parallel import known_gain
from ..processes.process_group import RankError
from ..processes.step_exchange import ExchangeFloats, StepExchange
from ..step.make_step import make_step
from ..step.native_step import native_step
from ..step.step_config import StepConfig, step_config
from ..tables.tables import hot_entities
from .column_tables import ColumnTables, attach_slices, split_tables
from .rank_run import WorkerRun, Rank0Run, RankRanker, RankRun

MOST_SAMPLER_THREADS = 4


def exchange_floats(config: StepConfig, sampler: Sampler, entities: int, relations: int) -> ExchangeFloats:
    """What ranks exchange in a step of a sampler's batches, at most: raw scores, the weights that become of them, and
    mean squares. config: of one rank."""
    positives, chunk, drawn = sampler.batch_size, sampler.chunk_size, sampler.config.neg_sample_size
    scores, weights = _native.exchanged_floats(native_step(config, threads=1), positives, chunk, drawn)
    negatives = positives // chunk * drawn
    squares = min(entities, 2 * positives + negatives) + negatives + positives + 4
    return ExchangeFloats(scores, weights, squares)


class ColumnRun(RankRun):
    """What all ranks do alike: the batches of all, which they make in turn, the steps of their own columns."""

    tables: ColumnTables
    ring: BatchRing  # where the ranks hand each other batches

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ranker = ColumnRanker(self)

    @property
    def ahead(self) -> int:
        return self.config.store.lookahead + STEPS_AHEAD

    @property
    def step_positives(self) -> int:
        return self.sampler.batch_size  # of the batches of all ranks

    def _make_sampler(self, part=None, ranks: int = 1) -> Sampler:
        config, graph = self.config, self.graph
        spare = len(os.sched_getaffinity(0)) // config.device.ranks // 2
        threads = max(config.store.sampler_threads, min(MOST_SAMPLER_THREADS, spare))
        whole = Sampler(*graph.train, graph.n_entities, config.model.relation_rows(graph.n_relations),
                        SamplerConfig(joined_batch_size(config), config.batch.neg_sample_size, config.run.seed,
                                      inverse=graph.n_relations if config.model.reciprocal else 0,
                                      chunk=config.batch.neg_chunk_size or 0,
                                      exclude_positive=config.batch.exclude_positive, threads=threads),
                        weight=triple_weights(config, graph))
        self.ring = self._open_ring(whole)
        whole.share(self.ring, self.rank)
        return whole

    def _open_ring(self, sampler: Sampler) -> BatchRing:
        raise NotImplementedError

    def _give_up(self, error: RuntimeError) -> None:
        if isinstance(error, RankError):
            self.tables.exchange.check_soon()  # a rank that fails hands out no more batches, and then says why
        super()._give_up(error)

    def _make_step(self):
        return None  # once the exchange is there

    def _own_arrays(self):
        return {}  # custom models have no columns

    def _open_exchange(self, path: Optional[str] = None) -> None:
        """path: what rank 0 has told the others."""
        ranks = self.config.device.ranks
        own = shard_step(step_config(self.config), ranks)
        floats = exchange_floats(own, self.sampler, self.graph.n_entities, self._relation_rows)
        self.tables.exchange = StepExchange(floats, self.rank, ranks, self.device, path)

    def _join(self) -> None:
        config, exchange = self.config, self.tables.exchange
        exchange.connect(self.group, config.device.peer)
        self.tables.connect(self.group)
        self.step = make_step(shard_step(step_config(config), config.device.ranks), device=self.device,
                              matmul=config.device.matmul, exchange=exchange)

    @property
    def _relation_rows(self) -> int:
        return self.config.model.relation_rows(self.graph.n_relations)


class ColumnRank0Run(ColumnRun, Rank0Run):
    """Rank 0."""

    def _make_tables(self) -> ColumnTables:
        rows = {"entity": self.graph.n_entities, "relation": self._relation_rows}
        hot = hot_entities(self.graph) if shard_config(self.config).uses_engine else None
        return split_tables(self.config, rows, self.config.run.seed, hot, self.device)

    def _open_ring(self, sampler):
        return sampler.make_ring(self.config.device.ranks)

    def _log_batch_size(self):
        ranks, positives = self.config.device.ranks, self.sampler.batch_size
        print(f"a step of all {ranks} ranks trains on {positives} triples", flush=True)

    def _hello(self):
        self._open_exchange()
        return {**super()._hello(), "exchange": self.tables.exchange.path, "batches": self.ring.path}

    def _join(self) -> None:
        super()._join()
        way = "peer access" if self.tables.exchange.peer else "host memory"
        self.summary["parallel"] = {"mode": "columns", "exchange": way}
        gain = known_gain(self.tables.exchange.peer, not shard_config(self.config).uses_engine,
                          self.tables.owner_transfer)
        print(f"scores are exchanged through {way}; {gain}", flush=True)


class ColumnWorkerRun(ColumnRun, WorkerRun):
    """Another rank than 0."""

    def _make_tables(self) -> ColumnTables:
        return attach_slices(self.config, self._hello["tables"], self.rank, self.device)

    def _open_ring(self, sampler):
        return BatchRing(self._hello["batches"])

    def _join(self) -> None:
        self._open_exchange(self._hello["exchange"])
        super()._join()


class ColumnRanker(RankRanker):
    """As several ranks do, on tables that rank 0 puts together."""

    def rank(self, mode, triples, tables):
        with self._run.pause(), tables.copied(self._run.group) as copied:
            return super().rank(mode, triples, copied)

