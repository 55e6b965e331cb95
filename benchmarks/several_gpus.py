"""Triples per second of several GPUs over the best setting of one, and over DGL-KE with as many, in one run.

    python -m benchmarks.ranks --json FILE --gpu 0 1 [--data_path P] [--part fb15k models large] [--entities N]

One GPU behind a cache of 5 %, with all rows cached and with the table on the device; several by columns with the same,
with --peer off, and by rows. Each leg is a whole run of the command; its number is the median over all intervals of its
log but the first, added over ranks, times the batch of a rank.

fb15k: TransE_l2, dim 400, batch 1024, 256 negatives [two_gpus_over_one_fb15k] [two_gpus_over_one_fb15k_no_peer]
[frugal_over_vanilla_two_gpus]. models: ComplEx and RotatE there [two_gpus_over_one_complex] [two_gpus_over_one_rotate].
large: N entities (20 million) by 400 behind a cache of 5 % [two_gpus_over_one_20m] [two_gpus_over_one_20m_no_peer]; the
same with rows in fp16 on both sides [two_gpus_over_one_20m_fp16] [two_gpus_over_one_20m_fp16_no_peer], in triples/s
[two_gpus_20m_fp16_triples_per_second] [two_gpus_20m_fp16_no_peer_triples_per_second] [one_gpu_20m_fp16_triples_per_second].
shares: what one of n GPUs has to do, but for the exchange: one GPU with an nth of the columns and n times the batch.
"""
from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from dglke_frugal.data.synthetic import SyntheticGraph, write

from . import result_file
from .train import BATCH, NEGATIVES, RECIPES

PARTS = ("fb15k", "models", "large", "shares")
SHARES = (2, 4, 8)
CACHED = ["--cache_ratio", "0.05"]
ONE = {"one": CACHED, "one_all_cached": ["--cache_ratio", "1"], "one_on_device": ["--flush", "none"]}
SEVERAL = {"columns": ["--parallel", "dims", *CACHED],
           "columns_on_device": ["--parallel", "dims", "--flush", "none"],
           "columns_no_peer": ["--parallel", "dims", "--flush", "none", "--peer", "off"],
           "rows": ["--parallel", "rows", "--flush_threads", "8", *CACHED]}
INTERVALS = 5  # of a run; the first one does not count
LIMIT_SECONDS = 240
LARGE_TRIPLES = 2_000_000
TOOK = re.compile(r"\[proc (\d+)\]\[Train\] (\d+) steps take ([0-9.]+) seconds")


def measure(flags, model, steps, threads, share=1):
    """One leg: its rate, or why there is none. share: see `shares` above."""
    batch, dim = BATCH * share, int(RECIPES[model][RECIPES[model].index("--hidden_dim") + 1]) // share
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dglke_frugal", "train", *map(str, flags), "--model_name", model,
                   *RECIPES[model], "--hidden_dim", str(dim), "-adv", "--batch_size", str(batch),
                   "--neg_sample_size", str(NEGATIVES),
                   "--max_step", str(steps), "--log_interval", str(steps // INTERVALS), "--no_save_emb",
                   "--save_path", folder]
        began = time.perf_counter()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                  timeout=LIMIT_SECONDS, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        except subprocess.TimeoutExpired:
            return {"triples_per_second": None, "reason": f"longer than {LIMIT_SECONDS} seconds"}
    rates = {}
    for rank, count, seconds in TOOK.findall(done.stdout):
        rates.setdefault(rank, []).append(int(count) / max(float(seconds), 1e-9))
    if done.returncode or not rates:
        return {"triples_per_second": None, "reason": done.stdout[-800:]}
    rate = sum(statistics.median(each[1:] or each) for each in rates.values())
    said = [line for line in done.stdout.splitlines() if line.startswith(("--parallel", "host rows")) or
            "exchanged through" in line]
    parts = re.findall(r"(\w+): ([0-9.]+)", next(iter(re.findall(r".*sample: .*step: .*", done.stdout)[-1:]), ""))
    return {"steps_per_second": rate, "triples_per_second": rate * batch, "said": said, "last_interval": parts[:3],
            "seconds": time.perf_counter() - began}


def over(legs, ours, theirs):
    """The best of some legs over the best of others; None where one side is missing."""
    sides = [[legs[name]["triples_per_second"] for name in names if legs.get(name, {}).get("triples_per_second")]
             for names in (ours, theirs)]
    return max(sides[0]) / max(sides[1]) if all(sides) else None


class Legs:
    """Measures legs and writes the file after each."""

    def __init__(self, path, report, gpus):
        self._path, self._report, self._gpus = path, report, [str(gpu) for gpu in gpus]
        self._threads = len(os.sched_getaffinity(0))

    def leg(self, part, name, flags, model="TransE_l2", steps=6000, alone=False, share=1):
        """alone: on the first GPU. share: as for measure."""
        gpus = self._gpus[:1] if alone else self._gpus
        result = measure([*flags, "--gpu", *gpus], model, steps, self._threads // len(gpus), share)
        self._report.setdefault(part, {})[name] = result
        rate = result["triples_per_second"]
        print(f"{part} {name:20s} {f'{rate:,.0f} triples/s' if rate else result['reason'][-300:]}", flush=True)
        self.write()

    def write(self):
        """All keys of the legs that there are."""
        report = self._report
        for key, part, ours, theirs in KEYS:
            report[key] = over(report.get(part, {}), ours, theirs)
        for key, (part, name) in RATES.items():
            report[key] = report.get(part, {}).get(name, {}).get("triples_per_second")
        result_file.write(self._path, report)


KEYS = [
    ("two_gpus_over_one_fb15k", "fb15k", ("columns", "columns_on_device"), ONE),
    ("two_gpus_over_one_fb15k_no_peer", "fb15k", ("columns_no_peer",), ONE),
    ("frugal_over_vanilla_two_gpus", "fb15k", ("columns", "columns_on_device"), ("vanilla",)),
    ("two_gpus_over_one_complex", "models", ("ComplEx_columns",), ("ComplEx_one",)),
    ("two_gpus_over_one_rotate", "models", ("RotatE_columns",), ("RotatE_one",)),
    ("two_gpus_over_one_20m", "large", ("columns",), ("one",)),
    ("two_gpus_over_one_20m_no_peer", "large", ("columns_no_peer",), ("one",)),
    ("two_gpus_over_one_20m_fp16", "large", ("columns_fp16",), ("one_fp16",)),
    ("two_gpus_over_one_20m_fp16_no_peer", "large", ("columns_fp16_no_peer",), ("one_fp16",)),
]
RATES = {"two_gpus_20m_fp16_triples_per_second": ("large", "columns_fp16"),
         "two_gpus_20m_fp16_no_peer_triples_per_second": ("large", "columns_fp16_no_peer"),
         "one_gpu_20m_fp16_triples_per_second": ("large", "one_fp16")}


def run(path, gpus, data_path, parts=PARTS, entities=20_000_000, vanilla=True):
    """Measure, and write `path` after each leg."""
    report = result_file.read(path)
    report.update(gpus=list(gpus), entities=entities)
    legs = Legs(path, report, gpus)
    with tempfile.TemporaryDirectory() as folder:
        large = SyntheticGraph(entities, 15_000, LARGE_TRIPLES, 1000, 1000, name="large")
        made = threading.Thread(target=write, args=(large, Path(folder), "Freebase"))
        if "large" in parts:
            made.start()  # on another core, beside the first legs
        graph = ["--dataset", "FB15k", "--data_path", str(data_path)]
        if "fb15k" in parts:
            for name, flags in ONE.items():
                legs.leg("fb15k", name, [*graph, *flags], alone=True)
            for name, flags in SEVERAL.items():
                legs.leg("fb15k", name, [*graph, *flags], steps=2500 if name == "rows" else 6000)
        if "large" in parts:
            made.join()
            for suffix, dtype in (("", "fp32"), ("_fp16", "fp16")):
                flags = ["--dataset", "Freebase", "--data_path", folder, *CACHED, "--row_dtype", dtype]
                legs.leg("large", f"one{suffix}", flags, steps=5000, alone=True)
                for name, more in (("", []), ("_no_peer", ["--peer", "off"])):
                    legs.leg("large", f"columns{suffix}{name}", [*flags, "--parallel", "dims", *more], steps=5000)
        if "models" in parts:
            for model, steps in (("ComplEx", 6000), ("RotatE", 2500)):
                legs.leg("models", f"{model}_one", [*graph, *ONE["one_on_device"]], model, steps, alone=True)
                legs.leg("models", f"{model}_columns", [*graph, *SEVERAL["columns_on_device"]], model, steps)
        for share in SHARES if "shares" in parts else ():
            legs.leg("shares", str(share), [*graph, *ONE["one_on_device"], "--sampler_threads", 4 * share],
                     steps=4000 // share + 2000, alone=True, share=share)
        if "fb15k" in parts and vanilla:
            legs.leg("fb15k", "vanilla", [*graph, "--backend", "vanilla", "--mix_cpu_gpu", "--num_proc", str(len(gpus)),
                                          "--num_thread", "1"], steps=200)
    legs.write()
    print({key: report[key] for key in (*(key for key, *_ in KEYS), *RATES)}, flush=True)
