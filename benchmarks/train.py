"""Training steps per second of ours and of DGL-KE, from the command line, on this machine with the same threads.

    python -m benchmarks.train --json FILE [--data_path P] [--threads N] [--repeats N] [--models TransE_l2 ...]

FB15k, TransE_l2, dim 400, batch 1024, 256 negatives, -adv, DGL-KE's learning rate and regularization; a graph of the
same size is made if there is no --data_path with FB15k in it. All legs run in turn, several times; a leg's rate is the
median over the intervals of its own log lines ("N steps take X seconds"), the first left out, over all its runs.

Legs: vanilla (DGL-KE, one process, its arithmetic on all threads), the same on one thread (the better of the two
counts: a busy machine slows the former far more), vanilla with a process per thread (which is not synchronous: another
algorithm), frugal (rows updated in place), frugal through the cache and the flush engine.

The floor of a step is what benchmarks/train_step.py says: arithmetic over the measured matrix-product rate, or bytes
over the measured copy rate, whichever is more.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dglke_frugal.options import TrainConfig
from dglke_frugal.data import load_graph
from dglke_frugal.data.synthetic import SyntheticGraph, write
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig

from . import result_file, train_step
from .timed_run import run

BATCH, NEGATIVES = 1024, 256
RECIPES = {  # flags besides the batch; dimensions as in benchmarks/train_step.py, formulas as in DGL-KE
    "TransE_l2": ["--hidden_dim", "400", "--gamma", "19.9", "--lr", "0.25", "-rc", "1e-9"],
    "TransE_l1": ["--hidden_dim", "400", "--gamma", "16", "--lr", "0.01", "-rc", "1e-7"],
    "DistMult": ["--hidden_dim", "400", "--gamma", "143", "--lr", "0.08", "-rc", "2e-6"],
    "ComplEx": ["--hidden_dim", "400", "--gamma", "143", "--lr", "0.1", "-rc", "2e-6"],
    "RotatE": ["--hidden_dim", "200", "-de", "--gamma", "12", "--lr", "0.009", "-rc", "1e-7"],
    "SimplE": ["--hidden_dim", "400", "-de", "-dr", "--gamma", "295", "--lr", "0.82", "-rc", "1e-6"],
    "RESCAL": ["--hidden_dim", "200", "--gamma", "24", "--lr", "0.03", "-rc", "2e-6", "--score_rule", "dglke"],
    "TransR": ["--hidden_dim", "100", "--gamma", "8", "--lr", "0.015", "-rc", "5e-8", "--score_rule", "dglke"]}
NOT_IN_VANILLA = ("SimplE",)  # DGL-KE 0.1.2, the release that pip installs
CACHE_RATIO = 0.05
SLOW_IN_VANILLA = {"TransE_l1": 5, "RotatE": 2, "RESCAL": 2, "TransR": 2}  # steps between log lines; 20 elsewhere
FB15K_SIZED = SyntheticGraph(14_951, 1_345, 483_142, 1000, 1000, name="fb15k-sized")


def graph_flags(data_path, folder, name="FB15k", made=FB15K_SIZED):
    """Flags that name a data set of data_path, or without that a graph of its size made in `folder`."""
    return ["--dataset", name, "--data_path", str(data_path)] if data_path else made_graph_flags(made, folder)


def made_graph_flags(graph, folder):
    """Flags that name a generated graph, which is written to `folder`."""
    path = write(graph, Path(folder))
    return ["--dataset", graph.name, "--format", "udd_hrt", "--data_path", str(path), "--data_files", "entities.tsv",
            "relations.tsv", "train.tsv", "valid.tsv", "test.tsv"]


def legs_of(model, threads):
    """By name: flags, threads of a process, processes, steps between log lines."""
    legs = {}
    if model not in NOT_IN_VANILLA:
        legs["vanilla"] = (["--backend", "vanilla"], threads, 1, SLOW_IN_VANILLA.get(model, 20))
        if model == "TransE_l2" and threads > 1:
            legs["vanilla_one_thread"] = (["--backend", "vanilla"], 1, 1, 20)
            flags = ["--backend", "vanilla", "--num_proc", str(threads), "--num_thread", "1"]
            legs["vanilla_processes"] = (flags, 1, threads, 20)
    legs["frugal"] = (["--flush", "none"], threads, 1, 50)
    if model == "TransE_l2":
        legs["frugal_p2f"] = (["--flush", "p2f", "--cache_ratio", str(CACHE_RATIO)], threads, 1, 50)
    return legs


def measure(model, graph, threads, repeats, seconds):
    """Rates of all legs of a model, which run in turn."""
    common = [*graph, "--model_name", model, *RECIPES[model], "-adv", "--batch_size", str(BATCH), "--neg_sample_size",
              str(NEGATIVES), "--seed", "1"]
    runs = {}
    for _ in range(repeats):
        for leg, (flags, of_process, processes, interval) in legs_of(model, threads).items():
            runs.setdefault(leg, []).append(run([*common, *flags], of_process, seconds, interval, processes))
    result = {}
    for leg, found in runs.items():
        rate = statistics.median(rate for each in found for rate in each.steps_per_second)
        result[leg] = {"steps_per_second": rate, "step_ms": 1e3 / rate, "triples_per_second": rate * BATCH,
                       "of_each_run": [each.median for each in found]}
        if leg == "frugal_p2f":
            result[leg]["stall_share"] = statistics.median(each.stall_share for each in found)
    return result


def frugal_over_vanilla(legs):
    """Our rate over DGL-KE's best synchronous one; None for a model that it does not have."""
    vanilla = [legs[leg]["steps_per_second"] for leg in ("vanilla", "vanilla_one_thread") if leg in legs]
    return legs["frugal"]["steps_per_second"] / max(vanilla) if vanilla else None


def add_traffic(result, model, graph):
    """Rows and bytes that a step reads (and writes back).

    Every negative and every relation of an edge counts for DGL-KE, which reads them one by one; for us, distinct rows.
    """
    train = graph.train
    sampler = Sampler(*train, graph.n_entities, graph.n_relations, SamplerConfig(BATCH, NEGATIVES, 1))
    batches = [sampler.batch(i) for i in range(20)]
    hidden, double_entity, double_relation = train_step.FLAGS.get(model, (train_step.HIDDEN, False, False))
    dims = train_step.find_model(model).dims(hidden, double_entity, double_relation)
    relation_floats = dims.relation + (dims.projection or 0)
    distinct = (statistics.mean(len(b.entities) for b in batches), statistics.mean(len(b.relations) for b in batches))
    unique = statistics.mean(len(np.unique(np.concatenate([b.head, b.tail]))) for b in batches)
    for leg, values in result.items():
        entities, relations = (unique + BATCH, BATCH) if leg.startswith("vanilla") else distinct
        values.update(rows_per_step=entities + relations,
                      bytes_per_step=4 * (entities * dims.entity + relations * relation_floats))


def start_up(graph, threads):
    """Seconds from the command to the end of the first step, and of the import; medians of three processes."""
    flags = [*graph, "--model_name", "TransE_l2", *RECIPES["TransE_l2"], "-adv", "--seed", "1"]
    importing = [
        timed([sys.executable, "-c", "import dglke_frugal"]) - timed([sys.executable, "-c", "pass"]) for _ in range(3)]
    return {"first_step_seconds": statistics.median(run(flags, threads, 0, 1).start_seconds for _ in range(3)),
            "import_seconds": statistics.median(importing)}


def timed(command):
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


def main():
    parser = result_file.parser(__doc__, required=True)
    parser.add_argument("--data_path", help="folder with FB15k in it")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3, help="runs of each leg (%(default)s)")
    parser.add_argument("--seconds", type=float, default=6, help="of each run, without its start (%(default)s)")
    parser.add_argument("--models", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    options = parser.parse_args()
    rates = train_step.measured_rates(options.threads)
    print(f"{options.threads} threads: matrix product {rates['product'] / 1e9:.0f} GFLOP/s, copy "
          f"{rates['copy'] / 1e9:.1f} GB/s")
    report = {"threads": options.threads, "rates": rates, "models": {}}
    with tempfile.TemporaryDirectory() as folder:
        flags = graph_flags(options.data_path, folder)
        config = TrainConfig.from_flags(vars_of(flags)).graph
        graph = load_graph(config.dataset, config.data_path, config.format, config.data_files)
        report.update(graph=config.dataset, **start_up(flags, options.threads))
        print(f"import {report['import_seconds']:.2f} s, first step after {report['first_step_seconds']:.2f} s")
        batches = train_step.make_batches(np.random.default_rng(0), 16)
        for model in options.models:
            legs = measure(model, flags, options.threads, options.repeats, options.seconds)
            add_traffic(legs, model, graph)
            alone = train_step.measure(model, batches, 20, options.threads, rates)
            over = frugal_over_vanilla(legs)
            report["models"][model] = {"legs": legs, "frugal_over_vanilla": over, "floor_ms": alone["floor_ms"],
                                       "step_alone_ms": alone["ms"], "phases_ms": alone["phases_ms"]}
            show(model, legs, alone, over)
            if model == "TransE_l2":
                report.update(headline(legs, over))
            result_file.write(options.json, report)  # after each model: all of them take a quarter of an hour


def headline(legs, over):
    """The figures that the whole benchmark is about, from TransE_l2's legs."""
    stall = legs["frugal_p2f"]["stall_share"]
    print(f"frugal over vanilla {over:.2f}x, stall {stall:.3%}", flush=True)
    found = {"frugal_over_vanilla_cpu": over, "stall_share": stall}
    if "vanilla_processes" in legs:
        found["frugal_over_vanilla_processes"] = (legs["frugal"]["steps_per_second"]
                                                  / legs["vanilla_processes"]["steps_per_second"])
    return found


def vars_of(flags):
    from dglke_frugal.cli.flags import dglke_flags

    return vars(dglke_flags().parse_args(flags))


def show(model, legs, alone, over):
    for leg, values in legs.items():
        rows, size = (values["steps_per_second"] * values[name] for name in ("rows_per_step", "bytes_per_step"))
        print(f"{model:10s} {leg:18s} {values['step_ms']:8.2f} ms a step, {values['steps_per_second']:7.1f} steps/s, "
              f"{rows / 1e6:5.2f} M rows/s, {size / 1e9:5.2f} GB/s", flush=True)
    phases = ", ".join(f"{phase} {ms:.2f}" for phase, ms in alone["phases_ms"].items())
    ratio = "" if over is None else f"; {over:.2f}x vanilla"
    print(f"{model:10s} step alone {alone['ms']:.2f} ms, floor {alone['floor_ms']:.2f} ms; {phases}{ratio}", flush=True)


if __name__ == "__main__":
    main()
