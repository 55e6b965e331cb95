"""Hit shares of the cache policies on traces of training batches (a part of benchmarks.kernels).

Batches are DGL-KE's: 1000 positives without replacement from shuffled epochs, 1000 uniform negatives. A row counts once
per batch, as it is read. FB15k and wn18rr are the graphs themselves; the Freebase-like trace draws positives from 2 M
entities with weight rank^-0.9, which puts 53, 67 and 74 % of them on 1, 5 and 10 % of the entities. The trace with drift
is the same but that each step shifts the ranks by 10, so that other entities are hot a hundred steps later; its static
set has those that the whole trace uses most. The first third of a trace fills the cache and is not counted.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from dglke_frugal import _native
from dglke_frugal.config import CACHE_POLICIES
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig

BATCH, NEGATIVES, LOOKAHEAD = 1000, 200, 10
SHARES = (0.01, 0.05, 0.1)
ZIPF_ROWS, ZIPF_EXPONENT = 2_000_000, 0.9


def read_edges(path):
    """(head, tail, number of entities) of a file of head TAB relation TAB tail, ids by first appearance."""
    ids = {}
    pairs = [line.rstrip("\n").split("\t")[::2] for line in open(path, encoding="utf-8")]
    head = np.array([ids.setdefault(h, len(ids)) for h, _ in pairs], np.int32)
    tail = np.array([ids.setdefault(t, len(ids)) for _, t in pairs], np.int32)
    return head, tail, len(ids)


def joined(steps):
    """(offsets, rows) of a list of row lists."""
    return np.cumsum([0] + [len(rows) for rows in steps]), np.concatenate(steps)


def graph_trace(path, steps):
    """(offsets, rows, entities by degree, number of entities)."""
    head, tail, entities = read_edges(path)
    relation = np.zeros(len(head), np.int32)
    with Sampler(head, relation, tail, entities, 1, SamplerConfig(BATCH, NEGATIVES)).batches() as batches:
        offsets, rows = joined([np.array(next(batches).entities) for _ in range(steps)])
    degree = np.bincount(head, minlength=entities) + np.bincount(tail, minlength=entities)
    return offsets, rows, np.argsort(-degree, kind="stable"), entities


def zipf_trace(steps, drift=0):
    """drift: ranks by which each step shifts who is hot."""
    rng = np.random.default_rng(5)
    by_rank = rng.permutation(ZIPF_ROWS)
    share = np.cumsum(np.arange(1, ZIPF_ROWS + 1) ** -ZIPF_EXPONENT)
    share /= share[-1]
    uses, batches = np.zeros(ZIPF_ROWS, np.int64), []
    for step in range(steps):
        positives = by_rank[(np.searchsorted(share, rng.random(2 * BATCH)) + drift * step) % ZIPF_ROWS]
        np.add.at(uses, positives, 1)
        batches.append(np.unique(np.concatenate([positives, rng.integers(0, ZIPF_ROWS, BATCH)])))
    offsets, rows = joined(batches)
    return offsets, rows, np.argsort(-uses, kind="stable") if drift else by_rank, ZIPF_ROWS


def policy_table(data_path, steps):
    """{trace: {share of the rows cached: {policy: hits, evictions, rejections per read, nanoseconds per read}}}."""
    traces = {}
    for name in ("FB15k", "wn18rr"):
        file = Path(data_path) / name / "train.txt"
        if file.is_file():
            traces[name] = graph_trace(file, steps)
        else:
            print(f"policies on {name}: not measured, there is no {file}")
    traces["freebase_like"] = zipf_trace(steps)
    traces["freebase_like_with_drift"] = zipf_trace(steps, drift=10)
    table = {}
    for name, (offsets, rows, hot, entities) in traces.items():
        table[name] = {}
        for share in SHARES:
            slots = int(entities * share)
            cells = table[name][share] = {}
            for policy in CACHE_POLICIES:
                counts = _native.replay_cache(policy, entities, slots, hot[:slots].astype(np.int64), offsets, rows,
                                              LOOKAHEAD, steps // 3)
                reads = counts.pop("reads")
                cells[policy] = {key: value / reads for key, value in counts.items()}
            hits = ", ".join(f"{policy} {cell['hits']:.1%} ({cell['nanoseconds']:.0f} ns)"
                             for policy, cell in cells.items())
            print(f"hits on {name}, {share:.0%} cached: {hits}", flush=True)
    return table
