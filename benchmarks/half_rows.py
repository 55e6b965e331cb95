"""What is learned with entity rows in half precision, compared with rows in float32: recipes run in full, by several
seeds.

    python -m benchmarks.half_rows --json FILE --data_path P [--runs fb15k/transe_l2 ...] [--dtypes fp32 fp16]
                                   [--seeds 1 2 3] [--gpu N] [--at_once N]

Each run is `dglke_train --preset FOLDER/NAME --row_dtype DTYPE --seed SEED`; metrics are of all test
triples, filtered, against all entities, ties pessimistic. [mean_mrr] by run and dtype; [mrr_below_fp32] the mean of
fp32 less that of a dtype, and [spread] the largest less the smallest MRR of fp32's seeds.
"""

from __future__ import annotations

import argparse
import os
import statistics
from concurrent.futures import ThreadPoolExecutor

from dglke_frugal.options import ROW_DTYPES

from . import result_file
from .recipes import CACHE_RATIO, train

RUNS = ["fb15k/transe_l2", "fb15k/complex", "fb15k_237/rotate", "wn18rr/rotate"]


def compare(runs):
    """Means by dtype of each run's seeds, and how far they are below fp32's."""
    compared = {}
    for name, by_dtype in runs.items():
        found = {dtype: [result["MRR"] for result in seeds.values()] for dtype, seeds in by_dtype.items()}
        mean = {dtype: statistics.mean(values) for dtype, values in found.items()}
        compared[name] = {"mean_mrr": mean, "seeds": {dtype: len(values) for dtype, values in found.items()}}
        if "fp32" in mean:
            compared[name]["mrr_below_fp32"] = {dtype: mean["fp32"] - value for dtype, value in mean.items()}
            compared[name]["spread"] = max(found["fp32"]) - min(found["fp32"])
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True,
                        help="write the results here; runs that are there already are kept")
    parser.add_argument("--data_path", required=True, help="folder with the graphs in it")
    parser.add_argument("--runs", nargs="+", default=RUNS, help="FOLDER/NAME each (%(default)s)")
    parser.add_argument("--dtypes", nargs="+", choices=ROW_DTYPES, default=ROW_DTYPES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--gpu", type=int, help="train on this GPU, with 5 %% of the rows cached")
    parser.add_argument("--at_once", type=int, default=1, help="runs at the same time")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (%(default)s)")
    options = parser.parse_args()
    report = {"runs": {}, **result_file.read(options.json)}
    flags = ["--data_path", options.data_path]
    flags += [] if options.gpu is None else ["--gpu", str(options.gpu), "--cache_ratio", CACHE_RATIO]

    def one(run):
        name, dtype, seed = run
        known = report["runs"].setdefault(name, {}).setdefault(dtype, {})
        if str(seed) not in known:
            known[str(seed)] = train(name, [*flags, "--row_dtype", dtype, "--seed", str(seed)], options.threads)
        print(f"{name:20s} {dtype} seed {seed}: MRR {known[str(seed)]['MRR']:.4f}", flush=True)
        report["compared"] = compare({name: {dtype: dict(seeds) for dtype, seeds in list(by_dtype.items()) if seeds}
                                      for name, by_dtype in list(report["runs"].items())})
        result_file.write(options.json, report)

    every = [(name, dtype, seed) for name in options.runs for seed in options.seeds for dtype in options.dtypes]
    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(one, every))
    for name, found in report["compared"].items():
        print(name, found, flush=True)


if __name__ == "__main__":
    main()
