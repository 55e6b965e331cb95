"""The engine's benchmarks: python -m benchmarks.engine --json FILE [--data_path FOLDER] [--build FOLDER]

Drives the C++ programs of csrc/benchmarks/engine (built here if --build holds none; needs cmake, ninja and oneTBB).
--data_path: a folder with FB15k in DGL-KE's built-in layout, for the real access pattern; a synthetic one otherwise.

queue_over_best_peer     two-level queue over the best of a binary heap with an index map and oneTBB's concurrent
                         priority queue (shared, and one per thread), same trace, same threads
flush_bandwidth_share    bytes brought home per second over what memcpy of large blocks reaches with as many threads
stall_sync_over_p2f_*    stall per step of sync over that of p2f, the lowest over 1, 3 and 10 ms of simulated compute,
                         with a cache of 10 % of the touched rows for what the next step uses again, in both modes;
                         the median of --repeats runs, all of which are in stall_sync_over_p2f_*_of_each_run: single
                         waits of a millisecond decide where cores are shared
planner_rows_per_second_20m, _86m
                         rows that the planner's thread decides per second: one rank that stores into host rows itself,
                         static cache of 5 %, tables of 20 and 86 M rows (other paths and policies: `planning`)
plan_us_N_ranks_20m      microseconds in which a step of the joined batches of N = 1, 2, 4, 8 ranks is planned, 1000
                         positives and 1000 negatives each, for ranks that each have columns of all 20 M rows and share
                         the plan; with the number of planner's threads that is fastest here (`planning_of_ranks`)
plan_us_N_ranks_by_rows_20m
                         the same for N = 2, 4 ranks by rows that meet, each with a batch of its own, 1000 positives and
                         1000 negatives, and a static cache of 5 % for the same hot rows (`planning_by_rows`)
engine_bytes_86m         memory of the process beyond the table, 86 M rows, largest of all runs
The floors: a wake-up of the flush thread and one of the rank (`wake_us` of `floors`) per stalled step.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from dglke_frugal.config import CACHE_POLICIES

from . import result_file

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["engine_queue", "engine_flush", "engine_stall", "engine_plan"]
PLANNED_ROWS = {"15k": 14_951, "20m": 20_000_000, "86m": 86_000_000}


def build(folder):
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DFRUGAL_PYTHON=OFF", "-DFRUGAL_CUDA=OFF"]
    subprocess.run([*configure, "-DFRUGAL_BENCHMARKS=ON"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", *PROGRAMS], check=True, stdout=subprocess.DEVNULL)
    return Path(folder) / "csrc" / "benchmarks" / "engine"


def call(program, **options):
    arguments = [str(x) for key, value in options.items() for x in (f"--{key}", value)]
    output = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output)


def write_edges(folder, file):
    """FB15k's training edges as int32 pairs (head, tail)."""
    dataset = Path(folder) / "FB15k"
    ids = {}
    for line in open(dataset / "entities.dict", encoding="utf-8"):
        number, name = line.rstrip("\n").split("\t")
        ids[name] = int(number)
    lines = (line.rstrip("\n").split("\t") for line in open(dataset / "train.txt", encoding="utf-8"))
    np.array([(ids[head], ids[tail]) for head, _, tail in lines], np.int32).tofile(file)


def wake_microseconds(rounds=200):
    """Median time to wake a sleeping thread of this process and to be woken by it: two system wake-ups."""
    ping, pong, times = threading.Semaphore(0), threading.Semaphore(0), []

    def answer():
        for _ in range(rounds):
            ping.acquire()
            pong.release()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(rounds):
        time.sleep(0.001)
        start = time.perf_counter()
        ping.release()
        pong.acquire()
        times.append(time.perf_counter() - start)
    thread.join()
    return statistics.median(times) * 1e6


def lowest_ratio(result):
    runs = [run for run in result["runs"] if run["cache"] == "reuse" and run["cache_share"] == 0.10]
    return min(run["sync_over_p2f"] for run in runs)


def stalls(program, name, repeats, **options):
    """Several runs on a trace: the one with the median ratio, that ratio, and the ratios of all."""
    runs = sorted((call(program, trace=name, **options) for _ in range(repeats)), key=lowest_ratio)
    median = runs[(len(runs) - 1) // 2]
    return {f"stall_{name}": median, f"stall_sync_over_p2f_{name}": lowest_ratio(median),
            f"stall_sync_over_p2f_{name}_of_each_run": [lowest_ratio(run) for run in runs]}


def planning(program):
    """Of each table size, value path and policy; and the keys for the case that a GPU trains with."""
    result = {"planning": [call(program, rows=rows, path=path, policy=policy) for rows in PLANNED_ROWS.values()
                           for path in ("host_row", "staging") for policy in CACHE_POLICIES]}
    for run in result["planning"]:
        for size in ("20m", "86m"):
            if (run["rows"], run["path"], run["policy"]) == (PLANNED_ROWS[size], "host_row", "static"):
                result[f"planner_rows_per_second_{size}"] = run["rows_per_second"]
    return result


def planning_of_ranks(program, threads, ranks=(1, 2, 4, 8)):
    """By ranks and by threads of the planner; nobody computes, and each rank pauses for 250 microseconds a step. Where
    there are not two cores for each rank one of them stands for all, so that the others do not take the planner's."""
    cores = os.cpu_count() or 1
    runs = [call(program, rows=PLANNED_ROWS["20m"], ranks=n, executors=n if cores >= 2 * n else 1, threads=count,
                 pause=250, steps=600) for n in ranks for count in threads]
    best = {f"plan_us_{n}_ranks_20m": min(run["planning_us"] for run in runs if run["ranks"] == n) for n in ranks}
    return {"planning_of_ranks": runs, **best}


def planning_by_rows(program, threads, ranks=(2, 4)):
    """By ranks and by threads of the planner; nobody computes, and each rank pauses for a millisecond a step."""
    runs = [call(program, rows=PLANNED_ROWS["20m"], ranks=n, by_rows=1, meets=1, threads=count, pause=1000, steps=600)
            for n in ranks for count in threads]
    best = {f"plan_us_{n}_ranks_by_rows_20m": min(run["planning_us"] for run in runs if run["ranks"] == n) for n in ranks}
    return {"planning_by_rows": runs, **best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--data_path")
    parser.add_argument("--build", default=str(ROOT / "build" / "benchmarks"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5, help="runs of the simulated stalls (%(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, max(1, (os.cpu_count() or 2) // 2), 2}))
    parser.add_argument("--planner_threads", type=int, nargs="+",
                        default=[n for n in (1, 2, 4, 8, 16) if n <= max(2, os.cpu_count() or 2)])
    options = parser.parse_args()
    programs = build(options.build)
    result = {"cores": os.cpu_count(), "floors": {"wake_us": wake_microseconds()}}
    result["queue"] = [call(programs / "engine_queue", threads=n) for n in options.threads]
    result["queue_over_best_peer"] = min(run["over_best_peer"] for run in result["queue"])
    result["flush"] = [call(programs / "engine_flush", threads=n) for n in options.threads]
    result["flush_bandwidth_share"] = max(run["bandwidth_share"] for run in result["flush"])
    result.update(planning(programs / "engine_plan"))
    result.update(planning_of_ranks(programs / "engine_plan", options.planner_threads))
    result.update(planning_by_rows(programs / "engine_plan", options.planner_threads))
    with tempfile.TemporaryDirectory() as folder:
        edges = {}
        if options.data_path:
            edges["edges"] = Path(folder) / "edges"
            write_edges(options.data_path, edges["edges"])
        result.update(stalls(programs / "engine_stall", "fb15k", options.repeats, steps=options.steps, **edges))
    result.update(stalls(programs / "engine_stall", "freebase", options.repeats, steps=min(options.steps, 150)))
    result["engine_bytes_86m"] = max(run[mode]["memory_bytes"] for run in result["stall_freebase"]["runs"]
                                     for mode in ("p2f", "sync"))
    result_file.write(options.json, result)
    for key, value in result.items():
        if not isinstance(value, (list, dict)):
            print(f"{key}: {value:.4g}")


if __name__ == "__main__":
    main()
