"""Training steps per second on one GPU, of ours and of DGL-KE, from the command line.

    python -m benchmarks.train_gpu --json FILE [--part {fb15k,memory,models,shapes,large}] [--legs NAME ...]
                                   [--data_path P] [--entities N]

fb15k: TransE_l2, dim 400, batch 1024, 256 negatives; DGL-KE with --gpu 0, and ours with the default cache
[default_over_vanilla_gpu], behind a cache of 5 % [frugal_over_vanilla_gpu] [step_us_fb15k_5], with all rows cached,
with the table on the device [step_us_on_device], there with tf32x3 [step_us_on_device_tf32x3], and behind 5 % without
graphs, with flush threads, with tf32x3 and tf32, and with rows in half precision
[step_us_fb15k_5_fp16]; also the step that plain PyTorch makes of it on the device, by torch.compile and a CUDA graph
(compiled_torch.py), over ours there [device_step_over_compiled_torch].
models: all eight models, behind a cache of 5 %.
shapes: a step on other graphs, with the table on the device, over one on FB15k there: on the graph of skewed_graph.py
[step_us_skewed], on wn18rr [step_us_wn18rr] and on a graph of one relation [step_us_one_relation]; by graph in
[shapes_over_fb15k], the worst of them in [step_us_skewed_over_fb15k].
memory: what torch held on the device at most over the device part of the plan [device_peak_over_plan], for the table
resident, behind 5 % and with the default, rows in float32 and in half precision.
large: a table of N entities (20 million) by 400 with 5 % cached [step_us_20m_5], with rows in half precision
[step_us_20m_5_fp16], and DGL-KE with --mix_cpu_gpu [frugal_over_vanilla_mix]. The share of time spent waiting for
rows is [stall_share].

A leg that cannot run (DGL-KE without a DGL for CUDA) is null, with the end of what it said as its reason.
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from dglke_frugal.data.synthetic import SyntheticGraph

from . import result_file
from .skewed_graph import SkewedGraph
from .timed_run import run
from .train import BATCH, FB15K_SIZED, NEGATIVES, NOT_IN_VANILLA, RECIPES, graph_flags, made_graph_flags

LARGE_TRIPLES = 5_000_000
CACHED = ["--cache_ratio", "0.05"]
FRUGAL = {"frugal": CACHED, "frugal_default": [], "frugal_all_cached": ["--cache_ratio", "1"],
          "frugal_on_device": ["--flush", "none"], "frugal_on_device_tf32x3": ["--flush", "none", "--matmul", "tf32x3"],
          "frugal_no_graphs": [*CACHED, "--cuda_graphs", "off"], "frugal_staged": [*CACHED, "--flush", "p2f"],
          "frugal_sync": [*CACHED, "--flush", "sync"], "frugal_tf32x3": [*CACHED, "--matmul", "tf32x3"],
          "frugal_tf32": [*CACHED, "--matmul", "tf32"], "frugal_fp16_rows": [*CACHED, "--row_dtype", "fp16"],
          "frugal_fp16_rows_on_device": ["--flush", "none", "--row_dtype", "fp16"]}
PARTS = ("fb15k", "memory", "models", "shapes", "large")
WN18RR_SIZED = SyntheticGraph(40_943, 11, 86_835, 1000, 1000, name="wn18rr-sized")
ONE_RELATION = replace(FB15K_SIZED, n_relations=1, name="one_relation")
MEMORY = ("frugal_on_device", "frugal", "frugal_default")  # legs of that part
KEYS = ("frugal_over_vanilla_gpu", "default_over_vanilla_gpu", "frugal_over_vanilla_mix", "step_us_on_device",
        "step_us_on_device_tf32x3", "step_us_fb15k_5", "step_us_fb15k_5_fp16", "step_us_20m_5", "step_us_20m_5_fp16",
        "step_us_skewed_over_fb15k", "device_step_over_compiled_torch", "device_peak_over_plan", "stall_share")


def recipe(model):
    """Flags of every run of ours and of DGL-KE's."""
    return ["--model_name", model, *RECIPES[model], "-adv", "--batch_size", str(BATCH), "--neg_sample_size",
            str(NEGATIVES)]


def measure(flags, model, options, interval):
    """One leg: its rate, its start and its stall, or why there is none."""
    command = [*flags, *recipe(model), "--seed", "1"]
    try:
        found = run(command, options.threads, options.seconds, interval)
    except RuntimeError as error:
        return {"steps_per_second": None, "reason": str(error)[-500:]}
    rate = statistics.median(found.steps_per_second)
    return {"steps_per_second": rate, "step_ms": 1e3 / rate, "triples_per_second": rate * BATCH,
            "start_seconds": found.start_seconds, "stall_share": found.stall_share}


def peak_over_plan(flags):
    """Of a run of some hundred steps to its end; None on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dglke_frugal", "train", *flags, *recipe("TransE_l2"), "--max_step", "300",
                   "--save_path", folder]  # and saves: rows that are being written back are in the plan
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = json.loads(next(Path(folder).glob("*/result.json")).read_text())
    peak = result["peak_device_bytes"]
    return peak and peak / result["planned_device_bytes"]


def over(legs, ours, theirs):
    """Ratio of two legs, or None where one is missing."""
    a, b = (legs.get(name, {}).get("steps_per_second") for name in (ours, theirs))
    return a / b if a and b else None


def microseconds(legs, name):
    """Of a leg's step, or None where it is missing."""
    rate = legs.get(name, {}).get("steps_per_second")
    return 1e6 / rate if rate else None


def compiled_torch(options):
    """The leg of plain PyTorch, in a process of its own: its milliseconds a step, or why there are none."""
    if options.gpu == "-1":
        return {"steps_per_second": None, "reason": "not without a GPU"}
    command = [sys.executable, "-m", "benchmarks.compiled_torch", "--gpu", options.gpu]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        return {"steps_per_second": None, "reason": ended.stderr[-500:] or f"exit code {ended.returncode}"}
    step_ms = json.loads(ended.stdout.splitlines()[-1])["step_ms"]
    return {"steps_per_second": 1e3 / step_ms, "step_ms": step_ms}


def main():
    parser = result_file.parser(__doc__, required=True, kept="parts")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--legs", nargs="+", help="of fb15k and large, by name (all)")
    parser.add_argument("--data_path", help="folder with FB15k and wn18rr in it")
    parser.add_argument("--entities", type=int, default=20_000_000, help="of the large table (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=8, help="of each leg, without its start (%(default)s)")
    parser.add_argument("--gpu", default="0", help="-1 tries the benchmark itself (%(default)s)")
    options = parser.parse_args()
    report = result_file.read(options.json)
    report.update(threads=options.threads)

    def leg(part, name, flags, model, interval=2000):
        if not options.legs or part == "models" or name in options.legs:
            keep(part, name, measure([*flags, "--gpu", options.gpu], model, options, interval))

    def keep(part, name, result):
        report.setdefault(part, {})[name] = result
        message = (f"{result['step_ms']:.3f} ms a step" if result["steps_per_second"]
                   else result["reason"].splitlines()[-1])
        print(f"{part} {name:20s} {message}", flush=True)
        result_file.write(options.json, report)

    with tempfile.TemporaryDirectory() as folder:
        graph = graph_flags(options.data_path, folder) if set(PARTS[:-1]) & set(options.part) else []
        if "fb15k" in options.part:
            leg("fb15k", "vanilla", [*graph, "--backend", "vanilla"], "TransE_l2", 50)
            for name, flags in FRUGAL.items():
                leg("fb15k", name, [*graph, *flags], "TransE_l2")
            if not options.legs or "compiled_torch" in options.legs:
                keep("fb15k", "compiled_torch", compiled_torch(options))
            legs = report.setdefault("fb15k", {})
            report["frugal_over_vanilla_gpu"] = over(legs, "frugal", "vanilla")
            report["default_over_vanilla_gpu"] = over(legs, "frugal_default", "vanilla")
            report["device_step_over_compiled_torch"] = over(legs, "frugal_on_device", "compiled_torch")
            report["step_us_on_device"] = microseconds(legs, "frugal_on_device")
            report["step_us_on_device_tf32x3"] = microseconds(legs, "frugal_on_device_tf32x3")
            report["step_us_fb15k_5"] = microseconds(legs, "frugal")
            report["step_us_fb15k_5_fp16"] = microseconds(legs, "frugal_fp16_rows")
            report["stall_share"] = legs.get("frugal", {}).get("stall_share")
        if "memory" in options.part:
            report["device_peak_over_plan"] = {
                f"{name}_{element}": peak_over_plan(
                    [*graph, *FRUGAL[name], "--row_dtype", element, "--gpu", options.gpu])
                for name in MEMORY for element in ("fp32", "fp16")}
        if "models" in options.part:
            for model in RECIPES:
                leg("models", model, [*graph, *CACHED], model, 500)
                if model not in NOT_IN_VANILLA:
                    leg("models", f"vanilla_{model}", [*graph, "--backend", "vanilla"], model, 20)
        if "shapes" in options.part:
            graphs = {"fb15k": graph, "skewed": made_graph_flags(SkewedGraph(), folder),
                      "wn18rr": graph_flags(options.data_path, folder, "wn18rr", WN18RR_SIZED),
                      "one_relation": made_graph_flags(ONE_RELATION, folder)}
            for name, flags in graphs.items():
                leg("shapes", name, [*flags, *FRUGAL["frugal_on_device"]], "TransE_l2")
            legs = report.setdefault("shapes", {})
            ratios = {name: over(legs, "fb15k", name) for name in graphs if name != "fb15k"}
            report |= {"shapes_over_fb15k": ratios, **{f"step_us_{name}": microseconds(legs, name) for name in ratios}}
            report["step_us_skewed_over_fb15k"] = max(ratios.values()) if all(ratios.values()) else None
        if "large" in options.part:
            large = SyntheticGraph(options.entities, 15_000, LARGE_TRIPLES, 1000, 1000, name="large")
            report["entities"] = options.entities
            flags = made_graph_flags(large, folder)
            for name in ("frugal", "frugal_fp16_rows", "frugal_staged", "frugal_sync"):
                leg("large", name, [*flags, *FRUGAL[name]], "TransE_l2", 500)
            leg("large", "vanilla_mix", [*flags, "--backend", "vanilla", "--mix_cpu_gpu"], "TransE_l2", 20)
            report["frugal_over_vanilla_mix"] = over(report.setdefault("large", {}), "frugal", "vanilla_mix")
            report["step_us_20m_5"] = microseconds(report["large"], "frugal")
            report["step_us_20m_5_fp16"] = microseconds(report["large"], "frugal_fp16_rows")
    result_file.write(options.json, report)
    print({name: report.get(name) for name in KEYS})


if __name__ == "__main__":
    main()
