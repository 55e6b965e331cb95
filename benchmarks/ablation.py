"""What each part of the design is worth: the ablations of the P²F paper as named runs.

    python -m benchmarks.ablation --json FILE [--data_path P] [--gpu N] [--run NAME ...] [--place {cpu,gpu,programs}
    ...]

p2f_vs_sync    training with flushing in the background by next use (p2f), before the next step (sync), by the step
itself
               into host rows (direct), and without an engine (in_place: the table where the step computes)
uva_vs_copy    missed rows read in place by the GPU, or gathered by the CPU and copied (a GPU only)
queue_vs_heap  operations per second of the two-level queue, a binary heap with an index map, and oneTBB's queue
cache_ratio    share of the entities that are cached
lookahead      steps that are known ahead
flush_threads  threads that flush

Training legs are TransE_l2 on FB15k (or a graph of its size made here), dim 400, batch 1024, 256 negatives, from the
command line, on the CPU and on GPU N: steps per second, and the share of time spent waiting for rows. `simulated` is
the engine alone on the same accesses, 3 ms of compute a step simulated by a sleep and 10 % of the rows cached, as
benchmarks/engine.py: microseconds that a step waits. What needs a GPU is null where there is none. Legs that are in the
file already and are not asked for are kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path


from . import engine, result_file, train_gpu
from .train import graph_flags

CACHE = "0.1"
COMPUTE_MS = 3  # of a simulated step
STAGED = ["--host_write", "staged"]  # new values go through flush threads, also with one GPU
P2F = ["--flush", "p2f", "--cache_ratio", CACHE, *STAGED]
TRAINED = {
    "p2f_vs_sync": {
        "p2f": P2F,
        "sync": ["--flush", "sync", "--cache_ratio", CACHE, *STAGED],
        "direct": ["--flush", "p2f", "--cache_ratio", CACHE, "--host_write", "direct"],
        "in_place": ["--flush", "none"],
    },
    "uva_vs_copy": {how: [*P2F, "--host_read", how] for how in ("uva", "copy")},
    "cache_ratio": {share: ["--flush", "p2f", *STAGED, "--cache_ratio", share]
                    for share in ("0.01", "0.05", "0.1", "0.3", "1")},
    "lookahead": {steps: [*P2F, "--lookahead", steps] for steps in ("1", "5", "10", "40")},
    "flush_threads": {threads: [*P2F, "--flush_threads", threads] for threads in ("1", "2", "4")},
}
PLACES = ("cpu", "gpu", "programs")  # training on the CPU, on --gpu, and the C++ programs, which need oneTBB
GPU_ONLY = ("uva_vs_copy",)
SIMULATED = ("lookahead", "flush_threads")  # options of csrc/benchmarks/engine/stall.cpp, which has both modes anyway


def train(graph, flags, gpu, options):
    """One training leg, or why there is none."""
    interval = 50 if gpu < 0 else 500
    found = train_gpu.measure([*graph, *flags, "--gpu", str(gpu)], "TransE_l2", options, interval)
    said = found.get("metrics", {})
    flushed = said.get("store/rows_flushed")  # of a line of the log
    return {
        "steps_per_second": found["steps_per_second"],
        "step_ms": found.get("step_ms"),
        "stall_share": said.get("train/stall_share"),
        "hit_share": said.get("store/hit_share"),
        "rows_flushed_per_step": None if flushed is None else flushed / interval,
        **({"reason": found["reason"][-200:]} if "reason" in found else {}),
    }


def simulate(program, edges, options, **settings):
    """The engine's waits with a simulated compute, p2f and sync."""
    result = engine.call(program, trace="fb15k", steps=options.steps, **edges, **settings)
    (found,) = [each for each in result["runs"]
                if (each["cache"], each["cache_share"], each["compute_ms"]) == ("reuse", 0.1, COMPUTE_MS)]
    return {mode: {key: found[mode][key] for key in ("stall_us", "step_us")} for mode in ("p2f", "sync")}


def main():
    names = [*TRAINED, "queue_vs_heap"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--run", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--data_path", help="folder with FB15k in it")
    parser.add_argument("--gpu", type=int, default=-1, help="GPU of the training legs (default: none)")
    parser.add_argument("--build", default=str(engine.ROOT / "build" / "benchmarks"), help="of the C++ programs")
    parser.add_argument("--place", nargs="+", choices=PLACES, default=PLACES, help="which legs (default: all)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=5, help="of each training leg (%(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="of each simulated leg (%(default)s)")
    options = parser.parse_args()
    report = result_file.read(options.json)
    report.update(threads=options.threads)
    programs = engine.build(options.build) if "programs" in options.place else None

    def keep(name, part, setting, values):
        report.setdefault(name, {}).setdefault(part, {})[setting] = values
        print(name, part, setting, {key: value for key, value in values.items() if value is not None}, flush=True)
        result_file.write(options.json, report)

    with tempfile.TemporaryDirectory() as folder:
        graph = graph_flags(options.data_path, folder)
        edges = {}
        if options.data_path:
            edges["edges"] = Path(folder) / "edges"
            engine.write_edges(options.data_path, edges["edges"])
        for name in options.run:
            report.setdefault(name, {})
            for setting, flags in TRAINED.get(name, {}).items():
                if "cpu" in options.place and name not in GPU_ONLY:
                    keep(name, "cpu", setting, train(graph, flags, -1, options))
                if "gpu" in options.place and options.gpu >= 0:
                    keep(name, "gpu", setting, train(graph, flags, options.gpu, options))
                if programs and name in SIMULATED:
                    found = simulate(programs / "engine_stall", edges, options, **{name: setting})
                    side_by_side = {f"{mode}_{key}": us for mode, of in found.items() for key, us in of.items()}
                    keep(name, "simulated", setting, side_by_side)
            if programs and name == "p2f_vs_sync":
                for mode, found in simulate(programs / "engine_stall", edges, options).items():
                    keep(name, "simulated", mode, found)
            if name in TRAINED:
                report[name].setdefault("gpu", None)
            elif programs:
                for threads in sorted({1, options.threads}):
                    keep(name, "operations_per_second", f"{threads} threads", queue(programs, threads))
    result_file.write(options.json, report)


def queue(programs, threads):
    """Rates of the queues on one trace."""
    found = engine.call(programs / "engine_queue", threads=threads)
    return {name: found[name] for name in ("two_level", "binary_heap", "tbb_shared", "tbb_sharded", "over_best_peer")}


if __name__ == "__main__":
    main()
