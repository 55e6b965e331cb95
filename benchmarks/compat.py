"""What the vanilla backend's own code costs of a training step of DGL-KE.

    OMP_NUM_THREADS=1 python -m benchmarks.compat --data_path DATA --json FILE

Trains FB15k, TransE_l2, dimension 400, batch 1024, 256 negatives. Counted as compat's: all of drawing a batch but
libdgl's C++ call (so with the little that dglke does itself there), and all of `apply_edges` but dglke's score
function; both are upper bounds. Times are means over the steps, in milliseconds; `compat_share` is compat's over the
step's.
"""
from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict

from dglke_frugal import compat

from . import result_file

STEPS, WARM_UP = 240, 40


class Stopwatch:
    """Seconds spent inside the functions it wraps, by name, for the step that runs."""

    def __init__(self):
        self.seconds = defaultdict(float)

    def wrap(self, name, function):
        def timed(*arguments, **options):
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[name] += time.perf_counter() - start

        return timed


def measure(data_path: str) -> dict:
    compat.install()
    import torch
    from dglke import train
    from dglke.models.general_models import KEModel

    from dglke_frugal.compat import graph, sampler

    watch, steps = Stopwatch(), []
    draw = train.NewBidirectionalOneShotIterator
    update, apply_edges = KEModel.update, graph.ReadOnlyGraph.apply_edges
    draw.__next__ = watch.wrap("draw", draw.__next__)
    sampler._fetch = watch.wrap("fetch", sampler._fetch)
    graph.ReadOnlyGraph.apply_edges = watch.wrap(
        "apply", lambda self, function: apply_edges(self, watch.wrap("score", function)))

    def finish_step(self, gpu_id=-1):
        update(self, gpu_id)
        now = time.perf_counter()
        steps.append((now, dict(watch.seconds)))
        watch.seconds.clear()

    KEModel.update = finish_step
    with tempfile.TemporaryDirectory() as folder:
        compat.run("train", [
            "--data_path", data_path, "--dataset", "FB15k", "--model_name", "TransE_l2", "--hidden_dim", "400", "-adv",
            "--batch_size", "1024", "--neg_sample_size", "256", "--gamma", "19.9", "--lr", "0.25", "-rc", "1e-9",
            "--max_step", str(STEPS), "--save_path", folder, "--no_save_emb"], seed=1)

    # Means, since libdgl draws ahead in every 16th step and only means add up.
    kept = [parts for _, parts in steps[WARM_UP:]]
    names = "draw", "fetch", "apply", "score"
    mean = {name: statistics.fmean(parts.get(name, 0.0) for parts in kept) for name in names}
    step = (steps[-1][0] - steps[WARM_UP - 1][0]) / len(kept)
    own = mean["draw"] - mean["fetch"] + mean["apply"] - mean["score"]
    return {
        "threads": torch.get_num_threads(), "step_ms": 1e3 * step, "libdgl_ms": 1e3 * mean["fetch"],
        "compat_ms": 1e3 * own, "compat_share": own / step,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", default="data", help="folder that holds FB15k")
    parser.add_argument("--json", type=result_file.result_file, help="file to write the figures to")
    arguments = parser.parse_args()
    figures = measure(arguments.data_path)
    print(json.dumps(figures, indent=2))
    if arguments.json:
        result_file.write(arguments.json, figures)


if __name__ == "__main__":
    main()
