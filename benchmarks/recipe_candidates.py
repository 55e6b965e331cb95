"""Candidates for recipes, each trained in full, side by side on some GPUs: validation and test metrics.

    python -m benchmarks.recipe_candidates --json FILE --data_path P [--candidates FILE.yaml] [--runs 'wn18rr/*' ...]
        [--gpu 0 1 2 3] [--at_once N] [--matmul tf32]

Each run is `dglke_train` with a candidate's flags, ranked on the validation triples four times and on the test triples
at its end. Runs that the JSON has are not run again; it is written after each. Choose by the validation MRR: the test's
is for what is told of the chosen one. Seconds of runs beside each other on one GPU mean little.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import queue
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Sequence

import yaml

from . import result_file

VALIDATIONS = 4


def candidates(file: Path) -> Dict[str, Dict[str, Any]]:
    """Flags by name, GROUP/NAME."""
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {f"{group}/{name}": {**of_group["common"], **flags} for group, of_group in groups.items()
            for name, flags in of_group["runs"].items()}


def train(flags: Dict[str, Any], more: Sequence[str], threads: int) -> Dict[str, Any]:
    """What a run gave, or the end of what it said if it failed."""
    watched = {**flags, "valid": True, "test": True, "no_save_emb": True,
               "eval_interval": max(1, flags["max_step"] // VALIDATIONS)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flags.yaml"
        file.write_text(yaml.safe_dump(watched), encoding="utf-8")
        command = [sys.executable, "-m", "dglke_frugal", "train", "--config", str(file), "--save_path", folder, *more]
        ended = subprocess.run(command, capture_output=True, text=True, check=False,
                               env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if ended.returncode:
            return {"failed": (ended.stdout + ended.stderr)[-1000:]}
        run = next(Path(folder).glob("*/result.json")).parent
        result = json.loads((run / "result.json").read_text())
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        validations = {line["step"]: line["valid/MRR"] for line in lines if "valid/MRR" in line}
    return {**{key: result[key] for key in ("best_validation", "test", "steps", "seconds")}, "validations": validations}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True, help="write the results here")
    parser.add_argument("--candidates", type=Path, default=Path(__file__).with_suffix(".yaml"), help="(%(default)s)")
    parser.add_argument("--data_path", required=True, help="folder with the graphs in it")
    parser.add_argument("--runs", nargs="+", default=["*"], help="patterns of names (all)")
    parser.add_argument("--gpu", type=int, nargs="+", default=[-1], help="train on these; -1 is the CPU (-1)")
    parser.add_argument("--at_once", type=int, default=1, help="runs beside each other on each GPU (%(default)s)")
    parser.add_argument("--max_step", type=int, help="instead of the candidates' own, to see that they run")
    parser.add_argument("--matmul", default="fp32", help="of a softmax over all entities on a GPU")
    options = parser.parse_args()
    every = candidates(options.candidates)
    wanted = [name for name in every if any(fnmatch.fnmatch(name, pattern) for pattern in options.runs)]
    report = {"runs": {}, **result_file.read(options.json), "at_once": options.at_once, "matmul": options.matmul}
    places: queue.Queue = queue.Queue()
    for gpu in options.gpu * options.at_once:
        places.put(gpu)
    threads = max(1, len(os.sched_getaffinity(0)) // places.qsize())

    def one(name: str) -> None:
        flags, gpu = dict(every[name]), places.get()
        if options.max_step:
            flags.update(max_step=options.max_step)
            flags.pop("lr_decay_at", None)
        matmul = ["--matmul", options.matmul] if flags["neg_sample_size"] == "all" else []
        try:
            found = train(flags, ["--data_path", options.data_path, "--gpu", str(gpu), *matmul], threads)
        finally:
            places.put(gpu)
        report["runs"][name] = {"flags": flags, **found}
        if "failed" in found:
            print(f"{name:40s} failed: {found['failed']}", flush=True)
        else:
            shown = "  ".join(f"{found['test'][key]:.4f}" for key in ("MRR", "HITS@1", "HITS@10"))
            print(f"{name:40s} validation MRR {found['best_validation']['MRR']:.4f}; test MRR, hits at 1 and 10 "
                  f"{shown}; {found['seconds']['training']:.0f} s", flush=True)
        result_file.write(options.json, report)

    left = [name for name in wanted if "test" not in report["runs"].get(name, {})]
    with ThreadPoolExecutor(places.qsize()) as pool:
        list(pool.map(one, left))


if __name__ == "__main__":
    main()
