"""Steps per second and stall of several ranks, on CPU cores or GPUs: p2f, sync, and vanilla DGL-KE in the same run.

    python -m benchmarks.ranks --json FILE [--data_path DIR --dataset FB15k] [--gpu 0 1] [--ranks 1 2 3 4] [--steps N]

Every configuration is a whole run of the command in processes of its own; the number is the training part alone, as
each program reports it, without the first of its log intervals. Medians of `runs` runs, and their spread. One thread
per rank in all of them; vanilla with its own sampler. Ranks have the GPUs in turn, so `--gpu 0` puts all of them on
one. Where there are fewer cores, or GPUs, than ranks, they compete, so the ratio to vanilla at the same number of ranks
is what can be compared, not the growth with the number.

With several GPUs, one alone and all of them come first: benchmarks/several_gpus.py, whose keys go to the same file;
`--part` names what of it, `--legs` which legs, and `--ranks` without a number leaves the rest out.
"""
from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from . import result_file, several_gpus

BATCH, NEGATIVES = 1000, 200
FLAGS = ["--model_name", "TransE_l2", "--batch_size", str(BATCH), "--neg_sample_size", str(NEGATIVES), "--hidden_dim",
         "400", "--gamma", "19.9", "--lr", "0.25", "--regularization_coef", "1e-9", "-adv", "--num_thread", "1",
         "--no_save_emb"]
INTERVALS = 5  # of a run; the first one does not count
CACHED = ["--cache_ratio", "0.05"]  # also for one GPU, whose default it is not
ROWS = ["--parallel", "rows", *CACHED]
SYSTEMS = {"in_step_sync": ROWS, "p2f": [*ROWS, "--flush", "p2f"], "sync": [*ROWS, "--flush", "sync"]}


def run(arguments, folder):
    """Output of dglke_train with these arguments."""
    command = [sys.executable, "-m", "dglke_frugal", "train", *map(str, arguments), "--save_path", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def devices(gpus, ranks):
    """The flags by which `ranks` ranks have these GPUs in turn, or CPU cores if there are none."""
    return ["--num_proc", ranks] + (["--gpu", *gpus[:ranks]] if gpus else [])


def speed(output, ranks):
    """Steps a second of all ranks together, by the times between their log lines."""
    taken = {}
    for rank, steps, seconds in re.findall(r"\[proc (\d+)\]\[Train\] (\d+) steps take ([0-9.]+) seconds", output):
        taken.setdefault(int(rank), []).append(int(steps) / float(seconds))
    if len(taken) != ranks or any(len(rates) != INTERVALS for rates in taken.values()):
        raise SystemExit(f"{ranks} ranks did not say how long each of {INTERVALS} parts took:\n{output}")
    return sum(statistics.median(rates[1:]) for rates in taken.values())


def frugal(flags, ranks, steps):
    """One run of ours: its speed, what each rank waited, and what it moved in a step."""
    with tempfile.TemporaryDirectory() as folder:
        output = run([*flags, "--max_step", steps, "--log_interval", steps // INTERVALS, "--seed", 1], folder)
        (path,) = Path(folder).glob("*/result.json")
        result = json.loads(path.read_text())
    reports = result.get("ranks") or [_report(result["training"])]

    def a_step(name):
        return sum(report.get(name, 0) for report in reports) / sum(report["steps"] for report in reports)

    return {"steps_per_second": speed(output, ranks),
            "stall_share": statistics.mean(report["stall_share"] for report in reports),
            "peer_share": statistics.mean(report.get("peer_share", 0.0) for report in reports),
            "hit_share": statistics.mean(report.get("hit_share", 0.0) for report in reports),
            "bytes_per_step": a_step("bytes_sent") + a_step("bytes_read")}


def _report(training):
    """Of one rank, what ranks report."""
    store = training["store"] or {}
    return {**training, **store, "bytes_sent": store.get("bytes_flushed", 0)}


def vanilla(flags, ranks, steps):
    """One run of DGL-KE."""
    with tempfile.TemporaryDirectory() as folder:
        output = run(["--backend", "vanilla", *flags, "--max_step", steps, "--log_interval", steps // INTERVALS],
                     folder)
    return {"steps_per_second": speed(output, ranks)}


def median(runs):
    """Medians by name, and the spread of the speed."""
    speeds = [each["steps_per_second"] for each in runs]
    return {**{name: statistics.median(each[name] for each in runs) for name in runs[0]},
            "spread": (max(speeds) - min(speeds)) / statistics.median(speeds), "runs": len(runs)}


def main():
    parser = result_file.parser(__doc__, required=True)
    parser.add_argument("--data_path", default="data")
    parser.add_argument("--dataset", default="FB15k")
    parser.add_argument("--gpu", type=int, nargs="+", default=[], help="GPUs that the ranks have in turn (CPU cores)")
    parser.add_argument("--part", nargs="*", choices=several_gpus.PARTS, default=list(several_gpus.PARTS),
                        help="of one GPU and of several")
    parser.add_argument("--legs", nargs="+", default=["*"], metavar="PART:LEG",
                        help="patterns of the legs of these parts, fb15k:columns_on_device_2 for example (all)")
    parser.add_argument("--counts", type=int, nargs="+", help="how many of the GPUs, in addition to one (all)")
    parser.add_argument("--entities", type=int, default=20_000_000, help="of the large table (%(default)s)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 3, 4])
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, "vanilla"], default=["p2f", "sync", "vanilla"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--flush_threads", type=int, default=2)
    options = parser.parse_args()
    if len(set(options.gpu)) > 1 and options.part:
        counts = options.counts or [len(options.gpu)]
        several_gpus.run(options.json, options.gpu, counts, options.data_path, options.part, options.entities,
                         options.legs)
    if not options.ranks:
        return
    data = ["--data_path", options.data_path, "--dataset", options.dataset]
    results = {"cores": len(os.sched_getaffinity(0)), "gpus": options.gpu, "dataset": options.dataset,
               "batch_size": BATCH, "steps": options.steps, "flush_threads": options.flush_threads, "ranks": {}}
    if Path(options.json).is_file():
        results = {**json.loads(Path(options.json).read_text()), **results}

    def measure(name, ranks):
        flags = [*data, *FLAGS, *devices(options.gpu, ranks)]
        if name == "vanilla":
            mix = ["--mix_cpu_gpu"] if options.gpu and ranks > 1 else []
            return vanilla([*flags, *mix], ranks, options.steps)
        # One rank on the CPU updates its tables in place: nothing to flush.
        ours = [] if ranks == 1 and not options.gpu else [*SYSTEMS[name], "--flush_threads", options.flush_threads]
        return frugal([*flags, *ours], ranks, options.steps)

    for ranks in options.ranks:
        # In turn, so that what else the machine does hits all alike.
        names = [name for name in options.systems if options.gpu or ranks > 1 or name in ("p2f", "vanilla")]
        measured = {name: [] for name in names}
        for _ in range(options.runs):
            for name in measured:
                measured[name].append(measure(name, ranks))
        of_ranks = {name: median(runs) for name, runs in measured.items()}
        if {"p2f", "vanilla"} <= measured.keys():
            of_ranks["ratio_to_vanilla"] = of_ranks["p2f"]["steps_per_second"] / of_ranks["vanilla"]["steps_per_second"]
        results["ranks"][str(ranks)] = of_ranks
        for name, numbers in of_ranks.items():
            print(ranks, name, numbers, flush=True)
    result_file.write(options.json, results)


if __name__ == "__main__":
    main()
