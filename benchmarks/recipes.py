"""Recipes run in full, their test metrics and the published ones.

    python -m benchmarks.recipes --json FILE --data_path P [--runs fb15k/complex ...] [--gpu N] [--at_once N]
    python -m benchmarks.recipes --json FILE --data_path P --runs '*softmax*' --gpu 0 --matmul tf32 --at_once 4
    python -m benchmarks.recipes --json FILE --data_path P --runs fb15k/transe_l2 --seeds 1 2 3 --row_dtypes fp32 fp16

Each run is `dglke_train --preset FOLDER/NAME`; metrics are of all test triples, filtered, against all
entities, ties pessimistic. Published levels: DGL-KE's own on one V100 for fb15k (examples/README.md of its repository
at e00bccf), LibKGE's for wn18rr, fb15k_237 and fb15k/rescal (README.md of its repository: 1vsAll or KvsAll training,
reciprocal relations and a search over hundreds of settings, so another way of training than negative sampling). Runs
named _dglke are by DGL-KE's two formulas (docs/evaluation.md), and so are its levels for them.
`over_published_mrr` is their ratio; runs named _softmax are compared with what the sources in their YAML files report.
Seconds of runs that share a machine mean little.
On a GPU 5 % of the entities are cached (--cache_ratio 0.05), but for a softmax over all entities, which has no cache.
With --row_dtypes each is trained with entity rows of these types; [compared] has by recipe the mean MRR by type, and
[spread], the largest less the smallest MRR of fp32's seeds.
"""

from __future__ import annotations

import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from dglke_frugal.options import MATMULS, ROW_DTYPES
from dglke_frugal.presets.catalogue import find_preset, presets

from . import result_file

CACHE_RATIO = "0.05"  # on a GPU, where by default a table that fits would lie there as a whole
TRANSR = ["fb15k/transr", "fb15k_237/transr", "wn18rr/transr"]  # nobody publishes a level for it
PUBLISHED_MRR = {"fb15k/transe_l1": 0.672, "fb15k/transe_l2": 0.649, "fb15k/distmult": 0.696, "fb15k/complex": 0.757,
                 "fb15k/rescal_dglke": 0.661, "fb15k/transr_dglke": 0.670, "fb15k/rotate": 0.726, "fb15k/simple": 0.709,
                 "fb15k_237/transe_l2": 0.313, "wn18rr/transe_l2": 0.228, "wn18rr/distmult": 0.452,
                 "wn18rr/complex": 0.475, "wn18rr/rotate": 0.478, "fb15k/rescal": 0.644, "fb15k_237/rescal": 0.356,
                 "wn18rr/rescal": 0.467, "fb15k_237/distmult": 0.343, "fb15k_237/complex": 0.348,
                 "fb15k_237/rotate": 0.333, "fb15k_237/complex_softmax": 0.35, "fb15k_237/complex_softmax_1000": 0.37,
                 "fb15k_237/complex_softmax_relations": 0.388, "fb15k_237/rescal_softmax": 0.356,
                 "fb15k_237/distmult_softmax": 0.343, "fb15k/complex_softmax": 0.84, "wn18rr/complex_softmax": 0.47,
                 "wn18rr/complex_softmax_500": 0.49, "wn18rr/complex_softmax_relations": 0.488,
                 "wn18rr/distmult_softmax": 0.452, "wn18rr/rescal_softmax": 0.467}  # fmt: skip


def chosen(patterns):
    """Presets by name or pattern, each once."""
    names = [preset.name for preset in presets()]
    found = [name for pattern in patterns for name in fnmatch.filter(names, pattern) or [find_preset(pattern).name]]
    return list(dict.fromkeys(found))


def train(name, flags, threads, gpu=None):
    """Metrics of one recipe's run, and how long it took."""
    given = yaml.safe_load(find_preset(name).file.read_text(encoding="utf-8"))
    if gpu is not None:
        flags = [*flags, "--gpu", str(gpu)]
        if given["neg_sample_size"] != "all":
            flags += ["--cache_ratio", CACHE_RATIO]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dglke_frugal", "train", "--preset", name, "--save_path", folder, *flags]
        ended = subprocess.run(command, capture_output=True, text=True,
                               env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {ended.stderr[-1000:]}")
        result = json.loads(next(Path(folder).glob("*/result.json")).read_text())
    found = {"steps": result["steps"], **result["test"], "train_seconds": result["seconds"]["training"],
             "test_seconds": result["seconds"]["testing"]}
    if name in PUBLISHED_MRR:
        found.update(published_mrr=PUBLISHED_MRR[name], over_published_mrr=found["MRR"] / PUBLISHED_MRR[name])
    return found


def compare(runs):
    """By recipe, of runs that say their type of rows: mean MRR by type, and how far the seeds of fp32 are apart."""
    found = {}
    for run in runs:
        if run.get("row_dtype"):
            found.setdefault(run["recipe"], {}).setdefault(run["row_dtype"], []).append(run["MRR"])
    return {name: {"mean_mrr": {dtype: statistics.mean(values) for dtype, values in by_dtype.items()},
                   "spread": max(by_dtype.get("fp32", [0])) - min(by_dtype.get("fp32", [0]))}
            for name, by_dtype in found.items()}


def main():
    parser = result_file.parser(__doc__, required=True, kept="runs")
    parser.add_argument("--data_path", required=True, help="folder with the graphs in it")
    parser.add_argument("--runs", nargs="+", default=[*PUBLISHED_MRR, *TRANSR],
                        help="FOLDER/NAME each (fb15k, fb15k_237, wn18rr), or patterns of them such as '*softmax*'")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="train each with these (the preset's own)")
    parser.add_argument("--matmul", choices=MATMULS, help="precision of products on the GPU (the preset's own)")
    parser.add_argument("--row_dtypes", nargs="+", choices=ROW_DTYPES, help="train each with rows of these types")
    parser.add_argument("--gpu", type=int, help="train on this GPU")
    parser.add_argument("--at_once", type=int, default=1, help="runs at the same time")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    options = parser.parse_args()
    report = {"runs": {}, **result_file.read(options.json)}
    report.update(at_once=options.at_once)
    flags = ["--data_path", options.data_path, *(["--matmul", options.matmul] if options.matmul else [])]
    runs = [(name, seed, dtype) for name in chosen(options.runs) for seed in options.seeds or [None]
            for dtype in options.row_dtypes or [None]]

    def one(run):
        name, seed, dtype = run
        own = [*([] if seed is None else ["--seed", str(seed)]), *(["--row_dtype", dtype] if dtype else [])]
        found = train(name, [*flags, *own], options.threads, options.gpu)
        found.update(seed=seed, matmul=options.matmul, recipe=name, row_dtype=dtype)
        name = ", ".join([name, *([] if seed is None else [f"seed {seed}"]), *([dtype] if dtype else [])])
        report["runs"][name] = found
        shown = "  ".join(f"{key} {found[key]:.4f}" for key in ("MRR", "MR", "HITS@1", "HITS@3", "HITS@10"))
        print(f"{name:20s} {shown}  in {found['train_seconds']:.0f} s; published MRR {found.get('published_mrr')}",
              flush=True)
        report["compared"] = compare(list(report["runs"].values()))
        result_file.write(options.json, report)

    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(one, runs))


if __name__ == "__main__":
    main()
