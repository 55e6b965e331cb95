"""A large generated graph from its files to its metrics, in planned memory.

    python -m benchmarks.large_graph --json FILE [--entities 20000000] [--triples 100000000] [--hidden_dim 95]
                                     [--row_dtype fp16] [--gpu 0 [1 ...]] [--cache_ratio 0.05] [--steps 200]
                                     [--skip_test]

Writes a skewed graph in Freebase's layout (relations and held-out triples in Freebase's proportions), then trains some
steps and tests against 1000 sampled candidates by the command line, in a process of its own. peak_over_plan compares
the most memory that process held with what was planned before it allocated anything; swapped_bytes is how much of it
was ever swapped out, by the kernel's count over the machine. With Freebase's entities (--entities 86054151) the steps
per second of one GPU are [freebase_steps_per_second] also. Several GPUs share the columns: a step of all of them has as
many batches; their test puts whole tables together, which takes the memory of the tables once more (--skip_test).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dglke_frugal.options import ROW_DTYPES
from dglke_frugal.data.synthetic import SyntheticGraph, write

from . import result_file

INTERVALS = 4  # of a run; the first does not count
FREEBASE_RELATIONS, FREEBASE_ENTITIES = 14_824, 86_054_151


def swapped_out() -> int:
    """Bytes that this machine has swapped out since it started."""
    pages = re.search(r"^pswpout (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(pages[1]) * 4096 if pages else 0


def train(data: Path, runs: Path, options: argparse.Namespace) -> dict:
    """Train and test in a process of its own; returns its result.json, with the steps/s of its intervals."""
    command = [sys.executable, "-m", "dglke_frugal", "train", "--dataset", "Freebase", "--data_path", str(data)]
    command += ["--save_path", str(runs), "--model_name", "TransE_l2", "--hidden_dim", str(options.hidden_dim)]
    command += ["--gamma", "10", "--lr", "0.1", "-rc", "1e-9", "-adv", "--batch_size", "1000"]
    command += ["--neg_sample_size", "200", "--seed", "1"]
    command += ["--max_step", str(options.steps), "--log_interval", str(options.steps // INTERVALS), "--no_save_emb"]
    command += [] if options.skip_test else ["--test"]
    command += ["--neg_sample_size_eval", "1000", "--batch_size_eval", "1000", "--eval_percent", "0.05"]
    command += ["--row_dtype", options.row_dtype, "--gpu", *map(str, options.gpu)]
    command += ["--cache_ratio", str(options.cache_ratio)] if options.gpu[0] >= 0 else []
    command += ["--parallel", "columns"] if len(options.gpu) > 1 else []
    subprocess.run(command, check=True)
    folder = runs / "TransE_l2_Freebase_0"
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    rates = [line["train/steps_per_second"] for line in lines if "train/steps_per_second" in line]
    return {**json.loads((folder / "result.json").read_text(encoding="utf-8")),
            "steps_per_second": statistics.median(rates[1:] or rates)}


def main() -> None:
    parser = result_file.parser(__doc__)
    parser.add_argument("--entities", type=int, default=20_000_000, help="(%(default)s)")
    parser.add_argument("--triples", type=int, default=100_000_000, help="to train on (%(default)s)")
    parser.add_argument("--hidden_dim", type=int, default=95, help="(%(default)s)")
    parser.add_argument("--row_dtype", choices=ROW_DTYPES, default="fp32", help="(%(default)s)")
    parser.add_argument("--gpu", type=int, nargs="+", default=[-1], help="-1: the CPU (%(default)s)")
    parser.add_argument("--skip_test", action="store_true", help="train only")
    parser.add_argument("--cache_ratio", type=float, default=0.05, help="of the rows, on a GPU (%(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="of training (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where graph and run go, about 25 bytes a triple (a temporary one)")
    options = parser.parse_args()
    held_out = options.triples // 18
    relations = max(2, options.entities * FREEBASE_RELATIONS // FREEBASE_ENTITIES)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        began, swapped = time.perf_counter(), swapped_out()
        graph = SyntheticGraph(options.entities, relations, options.triples, held_out, held_out, skew=0.9)
        write(graph, Path(folder), "Freebase")
        made = time.perf_counter()
        run = train(Path(folder), Path(folder) / "ckpts", options)
        whole = time.perf_counter() - made
    result = {"entities": options.entities, "relations": relations, "triples": options.triples,
              "hidden_dim": options.hidden_dim, "row_dtype": options.row_dtype, "gpu": options.gpu,
              "steps": run["steps"], "generate_seconds": made - began, "run_seconds": whole,
              "load_and_initialize_seconds": run["seconds"]["initialization"],
              "train_seconds": run["training"]["seconds"], "triples_per_second": run["training"]["triples_per_second"],
              "steps_per_second": run["steps_per_second"],
              "cache_ratio": options.cache_ratio if options.gpu[0] >= 0 else None,
              "test_seconds": run["seconds"].get("testing"), "test": run.get("test"),
              "planned_bytes": run["planned_host_bytes"], "peak_bytes": run["peak_host_bytes"],
              "peak_over_plan": run["peak_host_bytes"] / run["planned_host_bytes"],
              "swapped_bytes": swapped_out() - swapped}  # fmt: skip
    if options.entities == FREEBASE_ENTITIES and len(options.gpu) == 1:
        result["freebase_steps_per_second"] = run["steps_per_second"]
    print(json.dumps(result, indent=2))
    result_file.write(options.json, result)


if __name__ == "__main__":
    main()
