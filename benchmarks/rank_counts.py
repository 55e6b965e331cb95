"""What several ranks have in common in a step, and the rates of what they share: host memory and flush threads."""
from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dglke_frugal import _native
from dglke_frugal.data.synthetic import SyntheticGraph
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig

STEPS = 10
LARGE = SyntheticGraph(20_000_000, 15_000, 5_000_000)


def shared_rows(train, n_entities, n_relations, ranks, batch_size, negatives):
    """Means over STEPS steps and all ranks, of one rank and step.

    train: (head, relation, tail). rows, relation_rows: distinct ones; rows_shared, relation_rows_shared: those of them
    that another rank touches in the same step; gradients, relation_gradients: what is sent for these.
    """
    samplers = [Sampler(*train, n_entities, n_relations, SamplerConfig(batch_size, negatives, 1, rank, ranks))
                for rank in range(ranks)]
    sums = Counter()
    for step in range(STEPS):
        batches = [sampler.batch(step) for sampler in samplers]
        for name, ids, occurrences in (
                ("", [batch.entities for batch in batches],
                 [(np.diff(batch.positive_offset) > 0) + np.diff(batch.negative_offset) for batch in batches]),
                ("relation_", [batch.relations for batch in batches],
                 [np.diff(batch.relation_offset) for batch in batches])):
            distinct, users = np.unique(np.concatenate(ids), return_counts=True)
            shared = users[np.searchsorted(distinct, np.concatenate(ids))] > 1
            sums[f"{name}rows"] += len(shared)
            sums[f"{name}rows_shared"] += int(shared.sum())
            sums[f"{name}gradients"] += int(np.concatenate(occurrences)[shared].sum())
    return {name: total / (STEPS * ranks) for name, total in sums.items()}


def counts(graphs, ranks, batch_size, negatives):
    """shared_rows by graph and number of ranks. graphs: {name: (train, n_entities, n_relations)}."""
    return {name: {str(n): shared_rows(*graph, n, batch_size, negatives) for n in ranks if n > 1}
            for name, graph in graphs.items()}


def large_graph():
    """A graph of 20 M entities, of which a step touches few twice."""
    triples = LARGE.triples(0, LARGE.n_train)
    return (triples.head, triples.relation, triples.tail), LARGE.n_entities, LARGE.n_relations


def gradients_per_second(dim=400, per_row=40, rows=40_000):
    """Gradients that one thread applies to rows of a table too large for its caches; the median of some parts."""
    table = _native.HostTable(rows, dim)
    table.init_uniform(-1, 1, 0, 0)
    update = _native.RowAdagradUpdate(0.1)
    gradients = np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)
    rates = []
    for begin in range(0, rows, rows // 10):
        part = range(begin, begin + rows // 10, per_row)
        start = time.perf_counter()
        for row in part:
            update.apply(table.records[row, : dim + 1], gradients[row : row + per_row])
        rates.append(len(part) * per_row / (time.perf_counter() - start))
    return statistics.median(rates)


def host_memory_gb_s(megabytes=64, repeats=5):
    """GB/s that all cores copy together, bytes read and bytes written; the median of some tries."""
    cores, floats = len(os.sched_getaffinity(0)), megabytes * (1 << 20) // 4
    pairs = [(np.ones(floats, np.float32), np.ones(floats, np.float32)) for _ in range(cores)]
    rates = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            rates.append(8 * floats * cores / (time.perf_counter() - start) / 1e9)
    return statistics.median(rates)
