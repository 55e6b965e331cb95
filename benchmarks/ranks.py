"""Steps per second and stall of one to four CPU ranks: p2f, sync, and vanilla DGL-KE's --num_proc in the same run.

    python -m benchmarks.ranks --json FILE [--data_path DIR --dataset FB15k] [--ranks 1 2 3 4] [--steps N] [--runs N]

Every configuration is a whole run of the command in processes of its own; the number is the training part alone, as each
program reports it. Medians of `runs` runs, and their spread. One thread per rank in all of them; vanilla with its own sampler.
On a machine with fewer cores than ranks all of them compete for the same cores, so the ratio to vanilla at the same number of
ranks is what can be compared, not the growth with the number.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from dglke_frugal.files import replace_file

FLAGS = ["--model_name", "TransE_l2", "--batch_size", "1000", "--neg_sample_size", "200", "--hidden_dim", "400", "--gamma", "19.9",
         "--lr", "0.25", "--regularization_coef", "1e-9", "-adv", "--num_thread", "1", "--no_save_emb"]


def run(arguments, folder):
    """Output of dglke_train with these arguments."""
    command = [sys.executable, "-m", "dglke_frugal", "train", *map(str, arguments), "--save_path", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def frugal(data, ranks, steps, flush):
    """One run of ours: steps a second of all ranks together, and what each waited."""
    with tempfile.TemporaryDirectory() as folder:
        given = [] if ranks == 1 else ["--flush", flush]
        run([*data, *FLAGS, "--num_proc", ranks, "--max_step", steps, "--log_interval", steps, "--seed", 1, *given], folder)
        (path,) = Path(folder).glob("*/result.json")
        result = json.loads(path.read_text())
    reports = result.get("ranks") or [result["training"]]
    return {"steps_per_second": sum(report["steps"] for report in reports) / max(report["seconds"] for report in reports),
            "stall_share": statistics.mean(report["stall_share"] for report in reports),
            "peer_share": statistics.mean(report.get("peer_share", 0.0) for report in reports),
            "hit_share": statistics.mean(report.get("hit_share", 0.0) for report in reports),
            "bytes_per_step": sum(report.get("bytes_sent", 0) + report.get("bytes_read", 0) for report in reports)
            / sum(report["steps"] for report in reports)}


def vanilla(data, ranks, steps):
    """One run of DGL-KE: steps a second of all processes together, by the time between its log lines."""
    with tempfile.TemporaryDirectory() as folder:
        output = run(["--backend", "vanilla", *data, *FLAGS, "--num_proc", ranks, "--max_step", steps, "--log_interval", steps],
                     folder)
    seconds = [float(number) for number in re.findall(r"steps take ([0-9.]+) seconds", output)]
    if len(seconds) != ranks:
        raise SystemExit(f"vanilla with {ranks} processes printed {len(seconds)} times:\n{output}")
    return {"steps_per_second": ranks * steps / max(seconds)}


def median(runs):
    """Medians by name, and the spread of the speed."""
    speeds = [each["steps_per_second"] for each in runs]
    return {**{name: statistics.median(each[name] for each in runs) for name in runs[0]},
            "spread": (max(speeds) - min(speeds)) / statistics.median(speeds), "runs": len(runs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True)
    parser.add_argument("--data_path", default="data")
    parser.add_argument("--dataset", default="FB15k")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no_vanilla", action="store_true", help="where dgl and dglke are not installed")
    options = parser.parse_args()
    data = ["--data_path", options.data_path, "--dataset", options.dataset]
    systems = {"p2f": lambda ranks: frugal(data, ranks, options.steps, "p2f"),
               "sync": lambda ranks: frugal(data, ranks, options.steps, "sync")}
    if not options.no_vanilla:
        systems["vanilla"] = lambda ranks: vanilla(data, ranks, options.steps)
    results = {"cores": len(os.sched_getaffinity(0)), "steps": options.steps, "ranks": {}}
    for ranks in options.ranks:
        # In turn, so that what else the machine does hits all alike. One rank updates its tables in place: nothing to flush.
        measured = {name: [] for name in systems if not (ranks == 1 and name == "sync")}
        for _ in range(options.runs):
            for name in measured:
                measured[name].append(systems[name](ranks))
        of_ranks = {name: median(runs) for name, runs in measured.items()}
        if "vanilla" in of_ranks:
            of_ranks["ratio_to_vanilla"] = of_ranks["p2f"]["steps_per_second"] / of_ranks["vanilla"]["steps_per_second"]
        results["ranks"][str(ranks)] = of_ranks
        for name, numbers in of_ranks.items():
            print(ranks, name, numbers, flush=True)
    with replace_file(options.json, "w") as file:
        json.dump(results, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
