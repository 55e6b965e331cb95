"""Whether our trainer learns as much as DGL-KE's from the same recipe: ranks of the whole test set, several seeds.

    python -m benchmarks.quality --json FILE --data_path P [--steps 6000] [--seeds 1 2 3] [--trainers vanilla native]

FB15k, TransE_l2, DGL-KE's published recipe: dim 400, batch 1000, 200 negatives, gamma 19.9, learning rate 0.25,
regularization 1e-9, -adv; 24000 steps there (MRR .649 on one GPU). Each run is trained by its own command; all are
ranked by ours, filtered, against all entities, ties pessimistic. `within_noise` compares the means of the two trainers
with the spread of their seeds: at most twice the standard error of the difference, or 0.5 % of the value where that is
more.
"""
from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import result_file


RECIPE = ["--dataset", "FB15k", "--model_name", "TransE_l2", "--hidden_dim", "400", "--batch_size", "1000",
          "--neg_sample_size", "200", "--gamma", "19.9", "--lr", "0.25", "-rc", "1e-9", "-adv", "--log_interval",
          "1000"]
TRAINERS = {"vanilla": ["--backend", "vanilla"], "dglke": ["--trainer", "dglke"], "native": ["--cache_ratio", "0.05"]}
METRICS = ("MRR", "MR", "HITS@1", "HITS@3", "HITS@10")
TOLERANCE = 0.005
SETTINGS = ("steps", "num_proc", "batch_size", "regularization_coef")


def command(name, *arguments, threads):
    subprocess.run([sys.executable, "-m", "dglke_frugal", name, *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": str(threads)})


def of_processes(options):
    """Flags of a run by several processes; --steps counts for each of them, as in DGL-KE."""
    ranks = [] if options.num_proc == 1 else ["--num_proc", options.num_proc, "--num_thread", options.threads]
    ranks += ["--gpu", options.gpu] if options.gpu is not None else []
    ranks += ["-rc", options.regularization_coef] if options.regularization_coef is not None else []
    return [*ranks, *(["--batch_size", options.batch_size] if options.batch_size else [])]


def train_and_rank(trainer, seed, options):
    """Metrics and seconds of one run."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command("train", *RECIPE, "--data_path", options.data_path, "--save_path", folder, "--max_step", options.steps,
                "--seed", seed, *TRAINERS[trainer], *of_processes(options), threads=options.threads)
        trained = time.perf_counter()
        (run,) = Path(folder).iterdir()
        out = Path(folder) / "ranks.json"
        command("eval", "--model_path", run, "--dataset", "FB15k", "--data_path", options.data_path, "--model_name",
                "TransE_l2", "--hidden_dim", 400, "--gamma", 19.9, "--json", out, threads=options.threads)
        return {**json.loads(out.read_text())["metrics"], "train_seconds": trained - began,
                "rank_seconds": time.perf_counter() - trained}


def earlier(path, settings):
    """What a file of results has of the same settings: runs, by trainer and seed, and their machine."""
    report = result_file.read(path)
    return report if report and all(report.get(name) == value for name, value in settings.items()) else {"runs": {}}


def summary(runs):
    """Mean and sample standard deviation of each metric over the seeds."""
    return {name: spread([run[name] for run in runs.values()]) for name in (*METRICS, "train_seconds")}


def spread(values):
    """Mean and sample standard deviation of a metric over the seeds."""
    return {"mean": statistics.mean(values), "deviation": statistics.stdev(values) if len(values) > 1 else 0.0}


def within_noise(one, other, seeds):
    """Whether the means of two spreads agree."""
    error = math.hypot(one["deviation"], other["deviation"]) / math.sqrt(seeds)
    return abs(one["mean"] - other["mean"]) <= max(2 * error, TOLERANCE * other["mean"])


def main():
    parser = result_file.parser(__doc__, required=True, kept="runs of the same settings")
    parser.add_argument("--data_path", required=True, help="folder with FB15k in it")
    parser.add_argument("--num_proc", type=int, default=1, help="processes that train together; vanilla and native")
    parser.add_argument("--batch_size", type=int, help="of a process, instead of the recipe's 1000")
    parser.add_argument("--regularization_coef", type=float, help="instead of the recipe's: losses are means over a "
                        "batch and the penalty is not, so four times the batch takes a quarter of it")
    parser.add_argument("--gpu", type=int, help="train on this GPU")
    parser.add_argument("--at_once", type=int, default=1, help="runs at the same time; their seconds then mean little")
    parser.add_argument("--steps", type=int, default=6000, help="24000 in the published recipe (%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--trainers", nargs="+", default=["vanilla", "native"], choices=list(TRAINERS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in SETTINGS}
    report = earlier(options.json, settings)
    runs = report["runs"]

    def one(run):
        trainer, seed = run
        result = train_and_rank(trainer, seed, options)
        runs.setdefault(trainer, {})[str(seed)] = {**result, "gpu": options.gpu}
        shown = "  ".join(f"{name} {result[name]:.4f}" for name in METRICS)
        print(f"{trainer:8s} seed {seed}: {shown}  in {result['train_seconds']:.0f} s", flush=True)

    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(one, [(trainer, seed) for seed in options.seeds for trainer in options.trainers]))
    report = {**report, **settings, "threads": options.threads,
              "summary": {trainer: summary(found) for trainer, found in runs.items()}}
    report.pop("within_noise", None)
    for trainer, found in report["summary"].items():
        shown = "  ".join(f"{name} {found[name]['mean']:.4f} +- {found[name]['deviation']:.4f}" for name in METRICS)
        print(f"{trainer:8s} mean:   {shown}")
    if {"vanilla", "native"} <= set(runs):
        ours, theirs = report["summary"]["native"], report["summary"]["vanilla"]
        seeds = min(map(len, runs.values()))
        report["within_noise"] = {name: within_noise(ours[name], theirs[name], seeds) for name in METRICS}
        print("within noise:", report["within_noise"])
    result_file.write(options.json, report)


if __name__ == "__main__":
    main()
