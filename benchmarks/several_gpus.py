"""Triples per second of several GPUs over the best setting of one, and over DGL-KE with as many, in one run.

    python -m benchmarks.ranks --json FILE --gpu 0 1 [--data_path P] [--part fb15k models large] [--entities N]
    python -m benchmarks.ranks --json FILE --gpu 0 1 2 3 --counts 2 4 --ranks

One GPU behind a cache of 5 %, with all rows cached and with the table on the device; several sharded by columns behind
5 %, without any cache (_uncached), on the devices, and with --peer off; and data parallel behind 5 %, with flush
threads (--flush p2f), with --flush sync, with --peer off, and with GPUs that synchronise in each step (the default),
behind 5 % and without a cache. Each leg is a whole run of the command; its number is the median over all intervals of
its log but the first, added over ranks, times the batch of a rank. Legs that the file has from this commit are not run
again.

fb15k, and rows for the data-parallel legs there: TransE_l2, dim 400, batch 1024, 256 negatives. models: ComplEx and
RotatE there. skewed: the graph of skewed_graph.py with the table on the devices [skewed_gpus_over_one], by the number
of GPUs. large: N entities (20 million) by 400 behind a cache of 5 %, in float32 and in fp16 on both sides, and
ComplEx and RotatE in float32; large_rows: the data-parallel legs there.
[n_gpus_over_one] is by what was trained (fb15k, complex, rotate, 20m, 20m_fp16; _5 behind 5 %; _no_peer; _rows) and
by the number of GPUs, [n_gpus_over_vanilla] on FB15k by that number; of two GPUs also [two_gpus_over_one_fb15k],
[frugal_over_vanilla_two_gpus] and so on. [cache_over_none] is what a cache of 5 % of the large table gains GPUs that
share columns, by their number. Data parallel on the large table, of two GPUs without peer access:
[p2f_over_sync_two_gpus], the best of the ways to run P2F over sync, and [stall_share_two_gpus], the share of its time
that a rank's host waits for rows in that one.
"""
from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path

from dglke_frugal.data.synthetic import SyntheticGraph, write

from . import machine, result_file
from .skewed_graph import SkewedGraph
from .train import BATCH, NEGATIVES, RECIPES, made_graph_flags

PARTS = ("fb15k", "rows", "models", "skewed", "large", "large_rows")
CACHED = ["--cache_ratio", "0.05"]
ONE = {"one": CACHED, "one_all_cached": ["--cache_ratio", "1"], "one_on_device": ["--flush", "none"]}
SEVERAL = {"columns": ["--parallel", "columns", *CACHED],
           "columns_on_device": ["--parallel", "columns", "--flush", "none"],
           "columns_no_peer": ["--parallel", "columns", "--flush", "none", "--peer", "off"]}
UNCACHED = ["--cache_ratio", "0"]
# Legs sharded by columns, the last one without a cache.
OVER_THE_BUS = {"": [], "_no_peer": ["--peer", "off"], "_uncached": UNCACHED}
STAGED = [*CACHED, "--flush", "p2f"]
SYNC = [*CACHED, "--flush", "sync"]
DATA_PARALLEL = {"rows": STAGED, "rows_sync": SYNC, "rows_no_peer": [*STAGED, "--peer", "off"],
                 "rows_sync_no_peer": [*SYNC, "--peer", "off"],
                 "rows_meet": CACHED, "rows_meet_uncached": UNCACHED,
                 "rows_meet_no_peer": [*CACHED, "--peer", "off"],
                 "rows_meet_uncached_no_peer": [*UNCACHED, "--peer", "off"]}
FB15K_COLUMNS = ("columns", "columns_on_device")
SYNCHRONISED_NO_PEER = ("rows_meet_no_peer", "rows_meet_uncached_no_peer")
INTERVALS = 5  # of a run; the first one does not count
LIMIT_SECONDS = 240
LARGE_TRIPLES = 2_000_000
TOOK = re.compile(r"\[proc (\d+)\]\[Train\] (\d+) steps take ([0-9.]+) seconds")


def measure(flags, model, steps, threads):
    """One leg: its rate, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dglke_frugal", "train", *map(str, flags), "--model_name", model,
                   *RECIPES[model], "-adv", "--batch_size", str(BATCH), "--neg_sample_size", str(NEGATIVES),
                   "--max_step", str(steps), "--log_interval", str(steps // INTERVALS), "--no_save_emb",
                   "--save_path", folder]
        began = time.perf_counter()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                  timeout=LIMIT_SECONDS, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        except subprocess.TimeoutExpired:
            return {"triples_per_second": None, "reason": f"longer than {LIMIT_SECONDS} seconds"}
        stalls = stall_shares(Path(folder))
    rates = {}
    for rank, count, seconds in TOOK.findall(done.stdout):
        rates.setdefault(rank, []).append(int(count) / max(float(seconds), 1e-9))
    if done.returncode or not rates:
        return {"triples_per_second": None, "reason": done.stdout[-800:]}
    rate = sum(statistics.median(each[1:] or each) for each in rates.values())
    return {"steps_per_second": rate, "triples_per_second": rate * BATCH,
            "stall_share": statistics.mean(stalls) if stalls else None, "seconds": time.perf_counter() - began}


def stall_shares(folder):
    """What each of several ranks has waited for rows, as a share of its time, by the results in a folder."""
    return [rank["stall_share"] for path in folder.glob("*/result.json")
            for rank in json.loads(path.read_text()).get("ranks", ())]


def over(legs, ours, theirs):
    """The best of some legs over the best of others; None where one side is missing."""
    sides = [[legs[name]["triples_per_second"] for name in names if legs.get(name, {}).get("triples_per_second")]
             for names in (ours, theirs)]
    return max(sides[0]) / max(sides[1]) if all(sides) else None


# What [n_gpus_over_one] has: its name, the part, the legs of several GPUs, those of one.
COMPARED = [("fb15k", "fb15k", FB15K_COLUMNS, tuple(ONE)),
            ("fb15k_5", "fb15k", ("columns",), ("one",)),
            ("fb15k_no_peer", "fb15k", ("columns_no_peer",), tuple(ONE)),
            ("complex", "models", ("ComplEx_columns",), ("ComplEx_one",)),
            ("rotate", "models", ("RotatE_columns",), ("RotatE_one",)),
            ("skewed", "skewed", ("columns_on_device",), ("one_on_device",)),
            ("20m", "large", ("columns",), ("one",)),
            ("20m_no_peer", "large", ("columns_no_peer", *SYNCHRONISED_NO_PEER), ("one",)),
            ("20m_complex", "large", ("ComplEx_columns",), ("ComplEx_one",)),
            ("20m_rotate", "large", ("RotatE_columns",), ("RotatE_one",)),
            ("fb15k_rows", "fb15k", tuple(DATA_PARALLEL), tuple(ONE)),
            ("20m_rows", "large", tuple(DATA_PARALLEL), ("one",)),
            ("20m_fp16", "large", ("columns_fp16",), ("one_fp16",)),
            ("20m_fp16_no_peer", "large", ("columns_fp16_no_peer",), ("one_fp16",))]


def ratios(report, counts):
    """The keys that follow from the legs that there are."""
    def of(names, count):
        return [f"{name}_{count}" for name in names]

    over_one = {name: {str(count): over(report.get(part, {}), of(ours, count), one) for count in counts}
                for name, part, ours, one in COMPARED}
    over_vanilla = {str(count): over(report.get("fb15k", {}), of(FB15K_COLUMNS, count), of(("vanilla",), count))
                    for count in counts}
    large = report.get("large", {})
    cached = {str(count): over(large, of(("columns",), count), of(("columns_uncached",), count)) for count in counts}
    found = {"n_gpus_over_one": over_one, "n_gpus_over_vanilla": over_vanilla, "cache_over_none": cached,
             "skewed_gpus_over_one": over_one["skewed"]}
    if 2 in counts:
        found |= {f"two_gpus_over_one_{name}": by_count["2"] for name, by_count in over_one.items()}
        found["frugal_over_vanilla_two_gpus"] = over_vanilla["2"]
        p2f = of((*SYNCHRONISED_NO_PEER, "rows_no_peer"), 2)
        found["p2f_over_sync_two_gpus"] = over(large, p2f, ("rows_sync_no_peer_2",))
        best = max((large.get(name, {}) for name in p2f), key=lambda leg: leg.get("triples_per_second") or 0)
        found["stall_share_two_gpus"] = best.get("stall_share")
    return found


class Legs:
    """Measures legs and writes the file after each."""

    def __init__(self, path, gpus, counts, entities, only=("*",)):
        self._only = only
        self._path, self._gpus = path, [str(gpu) for gpu in gpus]
        self._report = result_file.read(path)
        self._again = self._report.get(result_file.MACHINE, {}).get("commit") != machine.commit()
        self._counts = sorted({*self._report.get("gpu_counts", ()), *counts})
        self._report.update(gpus=list(gpus), gpu_counts=self._counts, entities=entities)
        self._threads = len(os.sched_getaffinity(0))
        self._measured = set()  # in this run

    def leg(self, part, name, flags, model="TransE_l2", steps=6000, count=1):
        """count: of GPUs."""
        name = name if count == 1 else f"{name}_{count}"
        if not any(fnmatchcase(f"{part}:{name}", pattern) for pattern in self._only):
            return
        legs = self._report.setdefault(part, {})
        known = legs.get(name, {}).get("triples_per_second") and not self._again
        if known or (part, name) in self._measured:  # several parts have some legs
            return
        self._measured.add((part, name))
        result = measure([*flags, "--gpu", *self._gpus[:count]], model, steps, self._threads // count)
        legs[name] = result
        rate = result["triples_per_second"]
        print(f"{part} {name:20s} {f'{rate:,.0f} triples/s' if rate else result['reason'][-300:]}", flush=True)
        self.write()

    def warm_up(self, flags):
        """A run on each GPU that does not count: on a fresh machine the first one may be slower than later ones."""
        for gpu in self._gpus:
            measure([*flags, "--gpu", gpu], "TransE_l2", 1000, self._threads)

    def write(self):
        """All keys of the legs that there are."""
        found = ratios(self._report, self._counts)
        self._report.update(found)
        result_file.write(self._path, self._report)
        return found


def data_parallel(legs, part, graph, counts):
    """The data-parallel legs, on the graph that these flags name."""
    for count, (name, flags) in itertools.product(counts, DATA_PARALLEL.items()):
        legs.leg(part, name, [*graph, "--parallel", "rows", "--flush_threads", "8", *flags], steps=2500, count=count)


def write_large(entities, folder):
    """The large graph, in Freebase's layout."""
    write(SyntheticGraph(entities, 15_000, LARGE_TRIPLES, 1000, 1000, name="large"), folder, "Freebase")


def run(path, gpus, counts, data_path, parts=PARTS, entities=20_000_000, only=("*",)):
    """Measure, and write `path` after each leg. counts: of GPUs, in addition to one. only: patterns of part:leg."""
    legs = Legs(path, gpus, counts, entities, only)
    with tempfile.TemporaryDirectory() as folder:
        made = threading.Thread(target=write_large, args=(entities, Path(folder)))
        large_parts = {"large", "large_rows"} & set(parts)
        if large_parts:
            made.start()  # on another core, during the first legs
        graph = ["--dataset", "FB15k", "--data_path", str(data_path)]
        if "fb15k" in parts:
            legs.warm_up([*graph, *ONE["one_on_device"]])
            for name, flags in ONE.items():
                legs.leg("fb15k", name, [*graph, *flags])
            for count, (name, flags) in itertools.product(counts, SEVERAL.items()):
                legs.leg("fb15k", name, [*graph, *flags], count=count)
        if "rows" in parts:
            data_parallel(legs, "fb15k", graph, counts)
        if large_parts:
            made.join()
            large_graph = ["--dataset", "Freebase", "--data_path", folder]
        if "large_rows" in parts:
            legs.leg("large", "one", [*large_graph, *CACHED], steps=5000)
            data_parallel(legs, "large", large_graph, counts)
        if "large" in parts:
            for suffix, element in (("", "fp32"), ("_fp16", "fp16")):
                flags = [*large_graph, *CACHED, "--row_dtype", element]
                legs.leg("large", f"one{suffix}", flags, steps=5000)
                for count, (name, more) in itertools.product(counts, OVER_THE_BUS.items()):
                    legs.leg("large", f"columns{suffix}{name}", [*flags, "--parallel", "columns", *more], steps=5000,
                             count=count)
            for model in ("ComplEx", "RotatE"):
                legs.leg("large", f"{model}_one", [*large_graph, *CACHED], model, 4000)
                for count in counts:
                    legs.leg("large", f"{model}_columns", [*large_graph, *SEVERAL["columns"]], model, 4000, count)
        if "skewed" in parts:
            skewed = made_graph_flags(SkewedGraph(), folder)
            legs.leg("skewed", "one_on_device", [*skewed, *ONE["one_on_device"]])
            for count in counts:
                legs.leg("skewed", "columns_on_device", [*skewed, *SEVERAL["columns_on_device"]], count=count)
        if "models" in parts:
            for model, steps in (("ComplEx", 6000), ("RotatE", 2500)):
                legs.leg("models", f"{model}_one", [*graph, *ONE["one_on_device"]], model, steps)
                for count in counts:
                    legs.leg("models", f"{model}_columns", [*graph, *SEVERAL["columns_on_device"]], model, steps, count)
        for count in counts if "fb15k" in parts else ():
            legs.leg("fb15k", "vanilla", [*graph, "--backend", "vanilla", "--mix_cpu_gpu", "--num_proc", str(count),
                                          "--num_thread", "1"], steps=200, count=count)
    print(legs.write(), flush=True)
