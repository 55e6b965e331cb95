"""How fast batches are made: python -m benchmarks.sampler --json FILE [--edges 338000000] [--threads 1 2]

Two graphs: one of FB15k's size, whose edges fit into a cache, and one of Freebase's (all splits together), where every
edge is a miss in every cache and in the page table. Edges are drawn uniformly, which no real graph is: nothing helps
the caches.

The floor of a batch is what the memory asks for, work left aside: one line per column (or one for all, in a table of
triples) of each edge in random places, and every byte of the batch written once; each at the rate that NumPy reaches
here with one thread, at its best. The peer is a plain NumPy sampler with a stored permutation, one thread, on the same
graph.

Joined batches of several ranks, 1024 positives and as many negatives each, on the graph of FB15k's size and on one of
20 M entities: `joined` is one process that makes all of them, by its threads; `shared` is one process a rank, each of
which makes every n-th batch for all.

sample_us_N_ranks        microseconds between two joined batches of N = 1, 2, 4, 8 ranks in each of N processes that
                         share what they make, 20 M entities, with --threads_of_rank threads that make them, by
                         default half of the cores that each process has
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time

import numpy as np

from dglke_frugal.training.batches.sampler import BatchRing, JoinedSampler, Sampler, SamplerConfig

from . import result_file

BATCH, NEGATIVES = 1000, 200
ARRAYS = ["head", "relation", "tail", "negative", "entities", "head_slot", "tail_slot", "negative_slot", "relations",
          "relation_slot", "positive_offset", "positive_occurrence", "negative_offset", "negative_occurrence",
          "relation_offset", "relation_occurrence"]


def make_triples(edges, entities, relations, table):
    """(head, relation, tail), int32: three arrays, or columns of one (edges, 3) table."""
    rng = np.random.default_rng(1)
    triples = np.empty((edges, 3), np.int32) if table else np.empty((3, edges), np.int32).T
    bounds = np.array([entities, relations, entities], np.int32)
    for begin in range(0, edges, 1 << 22):
        block = triples[begin:begin + (1 << 22)]
        for column in range(3):
            block[:, column] = rng.integers(0, bounds[column], len(block), dtype=np.int32)
    return triples.T


def rate(work, items, repeats=5, choose=statistics.median):
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        rates.append(items / (time.perf_counter() - start))
    return choose(rates)


def numpy_rate(triples, entities, batches=200):
    head, relation, tail = triples
    rng = np.random.default_rng(2)
    order = rng.permutation(min(len(head), 50_000_000)).astype(np.int32)  # stored; limited, for its memory

    def work():
        for i in range(batches):
            edge = order[i * BATCH:(i + 1) * BATCH] if (i + 1) * BATCH <= len(order) else order[:BATCH]
            positive = np.concatenate([head[edge], tail[edge]])
            negative = rng.integers(0, entities, BATCH)
            ids = np.concatenate([positive, negative])
            np.unique(ids, return_inverse=True)
            np.unique(relation[edge], return_inverse=True)
            np.argsort(ids, kind="stable")

    return rate(work, batches, 3)


def floor_us(triples, table, batch_bytes):
    edges = len(triples[0])
    index = np.random.default_rng(3).integers(0, edges, 2_000_000)
    columns = triples[:1] if table else triples
    lines = rate(lambda: [column[index] for column in columns], len(index), choose=max)  # edges per second
    source = np.ones(32_000_000, np.int64)
    target = np.empty_like(source)
    bandwidth = rate(lambda: np.copyto(target, source), source.nbytes, choose=max)
    return {"read": BATCH / lines * 1e6, "write": batch_bytes / bandwidth * 1e6}


def measure(name, edges, entities, relations, table, threads, batches):
    triples = make_triples(edges, entities, relations, table)
    result = {
        "graph": name,
        "edges": edges,
        "layout": "table" if table else "columns",
        "batches_per_s": {},
        "cpu_us": {},
    }
    for count in threads:
        config = SamplerConfig(BATCH, NEGATIVES, threads=count, lookahead=4 * count)
        with Sampler(*triples, entities, relations, config).batches() as stream:
            def work():
                for _ in range(batches):
                    next(stream)
            work()
            cpu = time.process_time()
            result["batches_per_s"][count] = rate(work, batches)
            result["cpu_us"][count] = (time.process_time() - cpu) / (5 * batches) * 1e6
            batch = next(stream)
    result["batch_bytes"] = sum(getattr(batch, name).nbytes for name in ARRAYS)
    result["floor_us"] = floor_us(triples, table, result["batch_bytes"])
    result["numpy_batches_per_s"] = numpy_rate(triples, entities)
    result["over_numpy"] = result["batches_per_s"][threads[0]] / result["numpy_batches_per_s"]
    return result


def make_joined(triples, entities, relations, ranks, threads, ring=None, rank=0):
    return JoinedSampler([Sampler(*triples, entities, relations, SamplerConfig(1024, 256, rank=r, ranks=ranks,
                                                                               threads=threads, lookahead=16))
                          for r in range(ranks)], ring, rank)


def batch_us(stream, batches):
    """Microseconds a batch, once it runs."""
    for _ in range(batches // 4):
        next(stream)
    start = time.perf_counter()
    for _ in range(batches):
        next(stream)
    return (time.perf_counter() - start) / batches * 1e6


def one_rank(triples, entities, relations, ranks, threads, path, rank, batches, connection):
    with make_joined(triples, entities, relations, ranks, threads, BatchRing(path), rank).batches() as stream:
        connection.send(batch_us(stream, batches))


def shared_us(triples, entities, relations, ranks, threads, batches):
    """Of the slowest of `ranks` processes, which go in step since they wait for each other's batches."""
    ring = make_joined(triples, entities, relations, ranks, threads).make_ring(ranks)
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(ranks)]
    processes = [context.Process(target=one_rank, args=(triples, entities, relations, ranks, threads, ring.path, rank,
                                                        batches, pipes[rank][1])) for rank in range(ranks)]
    for process in processes:
        process.start()
    slowest = max(receive.recv() for receive, _ in pipes)
    for process in processes:
        process.join()
    return slowest


def measure_ranks(name, edges, entities, relations, threads, threads_of_rank, batches):
    triples = make_triples(edges, entities, relations, table=True)
    result = {"graph": name, "edges": edges, "entities": entities, "joined_us": {}, "joined_cpu_us": {},
              "shared_us": {}}
    for ranks in (1, 2, 4, 8):
        joined, cpu = result["joined_us"].setdefault(ranks, {}), result["joined_cpu_us"].setdefault(ranks, {})
        for count in threads:
            with make_joined(triples, entities, relations, ranks, count).batches() as stream:
                began = time.process_time()
                joined[count] = batch_us(stream, batches // ranks)
                cpu[count] = (time.process_time() - began) / (batches // ranks + batches // ranks // 4) * 1e6
        given = threads_of_rank or max(1, (os.cpu_count() or 1) // (2 * ranks))
        result["shared_us"][ranks] = shared_us(triples, entities, relations, ranks, given, batches // ranks)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, help="write the results here")
    parser.add_argument("--edges", type=int, default=338_000_000, help="edges of the large graph (12 bytes each)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, default=3000)
    parser.add_argument("--ranks_edges", type=int, default=100_000_000, help="edges of the graph of 20 M entities")
    parser.add_argument("--rank_threads", type=int, nargs="+", help="threads that make joined batches (as --threads)")
    parser.add_argument("--threads_of_rank", type=int, default=0, help="of each rank (half of its share of the cores)")
    parser.add_argument("--only_ranks", action="store_true", help="joined batches alone")
    options = parser.parse_args()
    large = ("freebase", options.edges, 86_054_151, 14_824)
    results = []
    small = ("fb15k", 483_142, 14_951, 1_345)
    for graph, table in [] if options.only_ranks else [(small, False), (large, False), (large, True)]:
        result = measure(*graph, table, options.threads, options.batches)
        results.append(result)
        floor = result["floor_us"]
        rates = ", ".join(f"{n} threads {rate:,.0f}/s ({result['cpu_us'][n]:.0f} us of processor each)"
                          for n, rate in result["batches_per_s"].items())
        print(f"{result['graph']} as {result['layout']}: {rates}; floor {floor['read']:.0f} + {floor['write']:.0f} us; "
              f"NumPy {result['numpy_batches_per_s']:,.0f}/s, {result['over_numpy']:.1f}x", flush=True)
    ranks = []
    for graph in (small, ("20m", options.ranks_edges, 20_000_000, 1_000)):
        threads = options.rank_threads or options.threads
        result = measure_ranks(*graph, threads, options.threads_of_rank, options.batches)
        ranks.append(result)
        for n, by_threads in result["joined_us"].items():
            times = ", ".join(f"{count} threads {us:.0f} us" for count, us in by_threads.items())
            print(f"{result['graph']}, {n} ranks: one process {times}; shared {result['shared_us'][n]:.0f} us",
                  flush=True)
    keys = {f"sample_us_{n}_ranks": us for n, us in ranks[-1]["shared_us"].items()}
    for key, value in keys.items():
        print(f"{key}: {value:.4g}")
    if options.json:
        result_file.write(options.json, {"batch_size": BATCH, "neg_sample_size": NEGATIVES, "batches_per_s": results,
                                         "ranks": ranks, **keys})


if __name__ == "__main__":
    main()
