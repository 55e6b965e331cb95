"""Steps per second behind a cache of 5 % by its policy, which hits alone do not tell: what comes in puts others out.

    python -m benchmarks.cache_policies --json FILE --gpu 0 [--data_path P] [--part fb15k large drift] [--entities N]

fb15k: TransE_l2 of dim 400, batch 1024, 256 negatives. large: the same on a skewed graph of N entities (20 million).
drift: batches of training are drawn from shuffled epochs and do not drift, so here an Embedding of 2 million rows by 400
looks up the trace of benchmarks/cache_traces.py in which each step shifts the ranks of who is popular by 10, and learns a
gradient that is there already; `static` has the rows that the whole trace uses most, which nobody knows beforehand.

Of each part and policy: steps_per_second, the median of several intervals; hit_share, of distinct rows; for drift also
planning_us, what the planner's thread takes for a step. [fastest_policy] by part.
"""
from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from dglke_frugal import Embedding, optim
from dglke_frugal.config import CACHE_POLICIES
from dglke_frugal.embedding import CacheConfig, Constant, Lookahead

from . import result_file, training_run
from .cache_traces import zipf_trace
from .several_gpus import write_large
from .train import BATCH, NEGATIVES, RECIPES

PARTS = ("fb15k", "large", "drift")
CACHED, DIM, RANKS_A_STEP = 0.05, 400, 10
INTERVALS = 5  # of the trace with drift, and as many more before them that fill the cache


def of_training(graph, gpu, policy, seconds, threads):
    """A run of the command on the graph that these flags name."""
    flags = [*graph, "--model_name", "TransE_l2", *RECIPES["TransE_l2"], "-adv", "--batch_size", str(BATCH),
             "--neg_sample_size", str(NEGATIVES), "--cache_ratio", str(CACHED), "--cache_policy", policy]
    measured = training_run.run([*flags, "--gpu", str(gpu)], threads, seconds, log_interval=1000)
    return {"steps_per_second": measured.median, "hit_share": measured.metrics.get("store/hit_share")}


def _counts(statistics_of_engine):
    rank = statistics_of_engine["ranks"][0]
    return np.array([rank["cache_reads"], rank["host_reads"], statistics_of_engine["planned_steps"],
                     statistics_of_engine["planning_nanoseconds"]])


def of_lookups(trace, device, policy):
    """Lookups of a trace (offsets, rows, rows by use, number of rows), each with its update."""
    offsets, rows, hot, count = trace
    steps = [torch.from_numpy(rows[begin:end]) for begin, end in zip(offsets, offsets[1:])]
    cache = CacheConfig(cache_ratio=CACHED, cache_policy=policy, hot_ids=hot[:int(count * CACHED)])
    embedding = Embedding(count, DIM, optim.RowwiseAdagrad(0.1), device=device, cache=cache, init=Constant(0.01))
    gradient = torch.full((max(map(len, steps)), DIM), 1e-3, device=device)
    interval, rates = len(steps) // (2 * INTERVALS), []
    began = time.perf_counter()
    for number, ids in enumerate(Lookahead(steps, lambda ids: {embedding: ids}), 1):
        embedding.learn(embedding(ids), gradient[:len(ids)])
        if number % interval == 0:
            if device != "cpu":
                torch.cuda.synchronize()
            if number > INTERVALS * interval:
                rates.append(interval / (time.perf_counter() - began))
            elif number == INTERVALS * interval:
                before = _counts(embedding.statistics())
            began = time.perf_counter()
    hits, misses, planned, nanoseconds = (_counts(embedding.statistics()) - before).tolist()
    embedding.close()
    return {"steps_per_second": statistics.median(rates), "hit_share": hits / (hits + misses),
            "planning_us": 1e-3 * nanoseconds / planned}


def run(path, gpu, data_path, parts, entities, seconds, trace_steps, policies=CACHE_POLICIES):
    """Measure, and write `path` after each leg. gpu: its number; -1: the CPU."""
    report = {"gpu": gpu, "cached": CACHED, "entities": entities}
    threads = torch.get_num_threads()

    def each(part, measure):
        legs = report[part] = {}
        for policy in policies:
            legs[policy] = measure(policy)
            print(f"{part} {policy:10s} " + ", ".join(f"{key} {value:.3g}" for key, value in legs[policy].items()
                                                      if value is not None), flush=True)
            report.setdefault("fastest_policy", {})[part] = max(legs, key=lambda name: legs[name]["steps_per_second"])
            result_file.write(path, report)
            gc.collect()

    if "fb15k" in parts:
        graph = ["--dataset", "FB15k", "--data_path", str(data_path)]
        each("fb15k", lambda policy: of_training(graph, gpu, policy, seconds, threads))
    if "large" in parts:
        with tempfile.TemporaryDirectory() as folder:
            write_large(entities, Path(folder))
            graph = ["--dataset", "Freebase", "--data_path", folder]
            each("large", lambda policy: of_training(graph, gpu, policy, seconds, threads))
    if "drift" in parts:
        trace = zipf_trace(trace_steps, drift=RANKS_A_STEP)
        device = "cpu" if gpu < 0 else f"cuda:{gpu}"
        each("drift", lambda policy: of_lookups(trace, device, policy))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--gpu", type=int, default=0, help="its number (%(default)s); -1: the CPU")
    parser.add_argument("--data_path", default="data", help="folder that has FB15k (%(default)s)")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--entities", type=int, default=20_000_000, help="of large (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="that a run of training counts (%(default)s)")
    parser.add_argument("--trace_steps", type=int, default=6000, help="of drift, half of which count (%(default)s)")
    options = parser.parse_args()
    run(options.json, options.gpu, options.data_path, options.part, options.entities, options.seconds,
        options.trace_steps)


if __name__ == "__main__":
    main()
