"""Flags of recipes searched by the MRR of validation triples; the best then train in full and are tested.

    python -m benchmarks.recipe_search --json FILE --data_path P --start FILE.yaml --seconds S [--gpu N] [--at_once N]

FILE.yaml gives for each run (FOLDER/NAME, as recipes/FOLDER/NAME.yaml would be called) a list of flags to start from,
and the flags of its full run:

    fb15k_237/rescal:
      start: [{dataset: FB15k-237, model_name: RESCAL, hidden_dim: 100, lr: 0.05, max_step: 4000, ...}, ...]
      full: {max_step: 20000, valid: true, eval_interval: 4000, early_stop_patience: 2}

The starting points come first, then steps away from the best of each run, chosen at random but by a seed, always for
the run that has had the least time. After S seconds the best of each run trains with the flags of `full` over its own
and --test. Runs train beside each other, so their seconds mean little. The JSON is written after each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import queue
import random
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import yaml

from . import result_file

SPREAD = {"lr": 0.5, "gamma": 0.3, "regularization_coef": 1.0, "adversarial_temperature": 0.3}  # of the logarithm
CHANGED, RESIZED = 0.6, 0.25  # how likely a flag of SPREAD, and a size, changes in a step
SIZES = {"hidden_dim": (0.7, 1.4), "neg_sample_size": (0.5, 2.0), "batch_size": (0.5, 2.0)}

Flags = Dict[str, Any]


def train(flags: Flags, common: List[str], percent: float) -> Dict[str, Any]:
    """Metrics of one run, in this process. percent: share of the validation triples that is ranked."""
    from dglke_frugal.cli.train import main

    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        file = Path(folder) / "flags.yaml"
        file.write_text(yaml.safe_dump({"valid": True, "eval_interval": flags["max_step"], **flags}))
        share = ["--eval_percent", str(percent)] if percent < 1 else []
        try:
            with contextlib.redirect_stdout(nowhere):
                main(["--config", str(file), "--save_path", folder, "--no_save_emb", *common, *share])
        except SystemExit as stopped:  # divergence, or flags that do not fit; said on stderr
            return {"failed": str(stopped.code), "MRR": 0.0}
        result = json.loads(next(Path(folder).glob("*/result.json")).read_text())
    best = result["best_validation"] or result["validation"]
    return {"MRR": best["MRR"], "validation": result["validation"], "test": result["test"], "steps": result["steps"],
            "seconds": result["seconds"], "stopped_early": result["stopped_early"]}


def step_away(flags: Flags, limits: Flags, chance: random.Random) -> Flags:
    """Other flags near `flags`; sizes stay at most those of `limits`."""
    new = dict(flags)
    for name, spread in SPREAD.items():
        if name in flags and chance.random() < CHANGED:
            new[name] = float(f"{flags[name] * 2.718281828 ** chance.gauss(0, spread):.2g}")
    for name, factors in SIZES.items():
        if name in limits and chance.random() < RESIZED:
            new[name] = max(8, min(limits[name], round(flags[name] * chance.choice(factors) / 4) * 4))
    return new if new != flags else step_away(flags, limits, chance)


class Search:
    """What has been tried, and what to try next."""

    def __init__(self, runs: Dict[str, Dict[str, Any]], seed: int):
        self.runs, self._chance = runs, random.Random(seed)
        self.trials: List[Dict[str, Any]] = []
        self.full: Dict[str, Dict[str, Any]] = {}
        self._spent = {name: 0.0 for name in runs}
        self._waiting = {name: list(run["start"]) for name, run in runs.items()}
        self._running = {name: 0 for name in runs}

    def best(self, name: str) -> Flags:
        """The flags of the best trial of a run so far, or those it starts from."""
        of_run = [trial for trial in self.trials if trial["run"] == name]
        return max(of_run, key=lambda trial: trial["MRR"])["flags"] if of_run else self.runs[name]["start"][0]

    def next(self):
        """(run, flags) to try."""
        name = min(self.runs, key=lambda name: (self._running[name], self._spent[name]))
        self._running[name] += 1
        if self._waiting[name]:
            return name, self._waiting[name].pop(0)
        return name, step_away(self.best(name), self.runs[name].get("limits", {}), self._chance)

    def add(self, name: str, flags: Flags, found: Dict[str, Any], seconds: float) -> None:
        """Take in a trial that has ended."""
        self._running[name] -= 1
        self._spent[name] += seconds
        self.trials.append({"run": name, "flags": flags, "wall_seconds": round(seconds, 1), **found})

    def full_flags(self, name: str) -> Flags:
        """Of the full run."""
        return {**self.best(name), **self.runs[name]["full"], "test": True, "seed": 1}


def carry_out(search: Search, pool, options, common: List[str], save) -> None:
    """Trials until the time is up, then the full runs, until the time for those is up as well."""
    ended: queue.Queue = queue.Queue()
    began = time.monotonic()
    full = None
    busy = 0

    def submit(name, flags, is_full):
        started = time.monotonic()

        def done(found):
            ended.put((name, flags, is_full, found, time.monotonic() - started))

        percent = 1.0 if is_full else search.runs[name].get("percent", 1.0)
        pool.apply_async(train, (flags, common, percent), callback=done,
                         error_callback=lambda error: done({"failed": repr(error), "MRR": 0.0}))

    while busy or full is None or full:
        if full is None and time.monotonic() - began > options.seconds:
            full = list(search.runs)
        while busy < options.at_once and (full is None or full):
            name, flags = search.next() if full is None else (full[0], search.full_flags(full.pop(0)))
            submit(name, flags, full is not None)
            busy += 1
        try:
            left = began + options.seconds + options.full_seconds - time.monotonic()
            name, flags, is_full, found, seconds = ended.get(timeout=max(0.0, left))
        except queue.Empty:
            print("the time is up; full runs that have not ended are left out", flush=True)
            return
        busy -= 1
        if is_full:
            search.full[name] = {"flags": flags, **found}
        else:
            search.add(name, flags, found, seconds)
        test = f", test {found['test']['MRR']:.4f}" if is_full and found.get("test") else ""
        print(f"{time.monotonic() - began:5.0f} s {name:18s} {'full ' if is_full else ''}MRR {found['MRR']:.4f}{test} "
              f"in {seconds:.0f} s {found.get('failed', '')} {flags}", flush=True)
        save()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True, help="write the results here")
    parser.add_argument("--start", required=True, help="the runs, and where they start from")
    parser.add_argument("--data_path", required=True, help="folder with the graphs in it")
    parser.add_argument("--seconds", type=float, required=True, help="of searching")
    parser.add_argument("--full_seconds", type=float, default=1e9, help="of the full runs after it (no limit)")
    parser.add_argument("--at_once", type=int, default=6, help="runs beside each other (%(default)s)")
    parser.add_argument("--gpu", type=int, help="train on this GPU")
    parser.add_argument("--seed", type=int, default=0, help="of the steps (%(default)s)")
    options = parser.parse_args()
    search = Search(yaml.safe_load(Path(options.start).read_text()), options.seed)
    common = ["--data_path", options.data_path, "--seed", "1"]
    common += ["--gpu", str(options.gpu), "--flush", "none"] if options.gpu is not None else []
    about = {"at_once": options.at_once, "seconds": options.seconds}

    def save():
        result_file.write(options.json, {**about, "full": search.full, "trials": search.trials})

    with multiprocessing.get_context("spawn").Pool(options.at_once) as pool:  # its end ends what still runs
        carry_out(search, pool, options, common, save)


if __name__ == "__main__":
    main()
