"""Filtered test of a whole test set: ours and DGL-KE's, one after the other on the same tables.

    python -m benchmarks.eval --json FILE [--data_path data] [--run ckpts/TransE_l2_FB15k_0] [--gpu 0]

Without --run the tables are random, which times the same work but says nothing about the metrics of a trained model.
The floor is the arithmetic: distinct queries x entities x dim x 2 operations at the machine's float32 rate.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dglke_frugal import _native
from dglke_frugal.data import load_graph
from dglke_frugal.evaluation import SIDES, KnownTriples, Metrics, Protocol, evaluate
from dglke_frugal.inference.tables import read_config, read_model

from . import result_file
from .eval_on_gpu import gpu_leg, random_model


def arguments():
    parser = result_file.parser(__doc__)
    parser.add_argument("--data_path", default="data")
    parser.add_argument("--dataset", default="FB15k")
    parser.add_argument("--run", help="folder of a trained run of that dataset")
    parser.add_argument("--model_name", default="TransE_l2", help="of the random tables")
    parser.add_argument("--hidden_dim", type=int, default=400, help="of the random tables")
    parser.add_argument("--gamma", type=float, default=19.9, help="of the random tables")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="times ours is run; the median counts")
    parser.add_argument(
        "--vanilla_triples", type=int,
        help="let DGL-KE rank only about so many triples, evenly spaced, and scale its time; 0 for none")
    parser.add_argument("--batch_size_eval", default="16", help="of DGL-KE")
    parser.add_argument("--gpu", type=int, default=-1, help="test on this GPU as well, then all models; -1 for none")
    parser.add_argument("--compare_every", type=int, default=40, help="triples apart that other models' ranks compare")
    return parser.parse_args()


def run_ours(model, graph, options):
    """Median seconds and the evaluation, index and metrics included."""
    _native.set_num_threads(options.threads)
    seconds = []
    for _ in range(options.repeat):
        begin = time.perf_counter()
        evaluation = evaluate(model, tuple(graph.test), KnownTriples([tuple(split) for split in graph.splits.values()]))
        metrics = evaluation.metrics()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), evaluation, metrics


def run_vanilla(model, options, every):
    """DGL-KE's seconds for the triples it ranked, and its ranks per side."""
    with tempfile.TemporaryDirectory() as folder:
        stem = f"{options.dataset}_{model.name}"
        np.save(Path(folder) / f"{stem}_entity.npy", model.entity)
        np.save(Path(folder) / f"{stem}_relation.npy", model.relation)
        output = Path(folder) / "ranks.npz"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.vanilla_eval", "--data_path", options.data_path, "--dataset",
             options.dataset, "--model_name", model.name, "--model_path", folder, "--hidden_dim", str(model.hidden_dim),
             "--gamma", str(model.gamma), "--batch_size_eval", options.batch_size_eval, "--threads",
             str(options.threads), "--every", str(every), "--output", str(output)],
            check=True,
            stdout=sys.stderr)
        with np.load(output) as found:
            return float(found["seconds"]), {side: found[f"ranks_{side}"] for side in SIDES}


def compare_ranks(model, graph, vanilla_ranks, every):
    """Our metrics by the rule of the release (see evaluation/release_rule.py) and by its own, on the same triples."""
    triples = tuple(column[::every] for column in graph.test)
    known = KnownTriples([tuple(split) for split in graph.splits.values()])
    same_rule = evaluate(model, triples, known, Protocol(known="penalized"))
    ours = same_rule.metrics().named()
    theirs = Metrics.of([vanilla_ranks[side] for side in SIDES]).named()
    gaps = np.concatenate([same_rule.ranks(side) - vanilla_ranks[side] for side in SIDES])
    return {
        "vanilla_metrics": theirs,
        "metrics_by_vanillas_rule": ours,
        "metric_differences": {name: abs(ours[name] - theirs[name]) for name in ours},
        # Of the metrics between 0 and 1. One rank of 40 that float32 noise moves by one changes the mean rank by 1/n.
        "metric_difference": max(abs(ours[name] - theirs[name]) for name in ours if name != "MR"),
        "mean_rank_difference_relative": abs(ours["MR"] - theirs["MR"]) / theirs["MR"],
        "ranks_compared": len(gaps),
        "ranks_that_differ": int((gaps != 0).sum()),
        "largest_rank_gap": float(np.abs(gaps).max(initial=0.0)),
        "rank_gaps_up_and_down": [int((gaps > 0).sum()), int((gaps < 0).sum())]}


def main():
    options = arguments()
    graph = load_graph(options.dataset, options.data_path)
    if options.run:
        config = read_config(options.run)
        model = read_model(options.run, config["dataset"], config["model_name"], config["hidden_dim"], config["gamma"])
    else:
        model = random_model(options.model_name, graph, options.hidden_dim, options.gamma)
    seconds, evaluation, metrics = run_ours(model, graph, options)
    queries = sum(len(np.unique(np.stack([graph.test.relation, column]), axis=1).T)
                  for column in (graph.test.head, graph.test.tail))
    operations = 2.0 * queries * graph.n_entities * model.entity.shape[1]
    result = {"threads": options.threads, "tables": "trained" if options.run else "random", "model": model.name,
              "dim": model.entity.shape[1], "test_triples": len(graph.test), "distinct_queries": queries,
              "teraflop": operations / 1e12, "eval_seconds": seconds, "gigaflop_per_second": operations / seconds / 1e9,
              "metrics": metrics.named(),
              "pairs_decided_exactly": {side: evaluation.compared[side].close_calls for side in SIDES}}
    if options.vanilla_triples != 0:
        every = max(1, round(len(graph.test) / (options.vanilla_triples or len(graph.test))))
        measured, ranks = run_vanilla(model, options, every)
        scale = len(graph.test) / len(ranks["head"])
        result.update(
            {"vanilla_triples": len(ranks["head"]), "vanilla_measured_seconds": measured,
             "vanilla_eval_seconds": measured * scale, "vanilla_batch_size_eval": int(options.batch_size_eval),
             "frugal_over_vanilla_eval": measured * scale / seconds, **compare_ranks(model, graph, ranks, every)})
    result.update(gpu_leg(model, graph, evaluation, options))
    text = json.dumps(result, indent=2)
    print(text)
    result_file.write(options.json, result)


if __name__ == "__main__":
    main()
