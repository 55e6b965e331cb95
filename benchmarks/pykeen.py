"""Triples per second beside PyKEEN on the CPU, with the same threads.

    python -m benchmarks.pykeen --json FILE --data_path P [--threads 1] [--repeats 3] [--models TransE_l2 ...]

FB15k, dim 400 (RotatE: 200 complex numbers), batch 1024, 256 negatives, self-adversarial weights, Adagrad. Legs of a
model, in turn, medians over the repeats: pykeen (its sLCWA loop, which draws negatives for each triple), own (ours with
--neg_chunk_size 1: each triple has negatives of its own, too) and shared (ours by default: a chunk of triples shares
its negatives, as in DGL-KE). PyKEEN's memory is kept between steps, which makes it faster than by default. Let nothing
else run on the machine: what PyKEEN does depends most on memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from importlib import metadata
from typing import Dict

from dglke_frugal.data import load_graph

from . import result_file
from .train import BATCH, NEGATIVES, RECIPES
from .training_run import run

SECONDS = 10.0  # of a leg
STEPS = {"own": 2, "shared": 50}  # between two lines of the log
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**34)}
PYKEEN = {
    "TransE_l2": ("TransE", {"embedding_dim": 400, "scoring_fct_norm": 2}),
    "DistMult": ("DistMult", {"embedding_dim": 400}),
    "ComplEx": ("ComplEx", {"embedding_dim": 200}),
    "RotatE": ("RotatE", {"embedding_dim": 200}),
}


def pykeen_rate(data_path: str, model: str, threads: int) -> float:
    """Triples/s of PyKEEN's loop, which runs in a process of its own: its threads are set at its start."""
    code = f"from benchmarks.pykeen import train; print(train({data_path!r}, {model!r}, {threads}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, **KEEP_MEMORY})
    if done.returncode:
        raise SystemExit(f"PyKEEN's run failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def train(data_path: str, model: str, threads: int) -> float:
    """Triples/s of some batches of FB15k, after one that does not count."""
    import time

    import numpy as np
    import torch
    from pykeen.losses import NSSALoss
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    torch.set_num_threads(threads)
    graph = load_graph("FB15k", data_path)
    triples = torch.from_numpy(np.stack([graph.train.head, graph.train.relation, graph.train.tail], axis=1).astype(np.int64))

    def factory(batches: int) -> CoreTriplesFactory:
        return CoreTriplesFactory(triples[: BATCH * batches], num_entities=graph.n_entities,
                                  num_relations=graph.n_relations)

    name, kwargs = PYKEEN[model]
    learned = model_resolver.make(name, kwargs, triples_factory=factory(1), loss=NSSALoss(), random_seed=1)
    optimizer = torch.optim.Adagrad(learned.get_grad_params(), lr=0.1)

    def seconds(batches: int) -> float:
        part = factory(batches)
        loop = SLCWATrainingLoop(model=learned, triples_factory=part, optimizer=optimizer, negative_sampler="basic",
                                 negative_sampler_kwargs={"num_negs_per_pos": NEGATIVES})
        began = time.perf_counter()
        loop.train(part, num_epochs=1, batch_size=BATCH, use_tqdm=False)
        return time.perf_counter() - began

    once = seconds(1)
    batches = max(2, round(SECONDS / once))
    return batches * BATCH / seconds(batches)


def our_rate(data_path: str, model: str, leg: str, threads: int) -> float:
    """Triples/s of dglke_train."""
    flags = ["--dataset", "FB15k", "--data_path", data_path, "--model_name", model, *RECIPES[model], "-adv",
             "--batch_size", str(BATCH), "--neg_sample_size", str(NEGATIVES)]
    own = ["--neg_chunk_size", "1"] if leg == "own" else []
    return run([*flags, *own], threads, SECONDS, STEPS[leg]).median * BATCH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--data_path", required=True, help="the folder that holds FB15k")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=PYKEEN, default=list(PYKEEN))
    options = parser.parse_args()
    models: Dict[str, Dict[str, float]] = {}
    for model in options.models:
        rates: Dict[str, list] = {"pykeen": [], "own": [], "shared": []}
        for _ in range(options.repeats):
            rates["pykeen"].append(pykeen_rate(options.data_path, model, options.threads))
            for leg in STEPS:
                rates[leg].append(our_rate(options.data_path, model, leg, options.threads))
        models[model] = {leg: statistics.median(found) for leg, found in rates.items()}
        print(model, {leg: round(rate) for leg, rate in models[model].items()}, flush=True)
    result_file.write(options.json, {"threads": options.threads, "pykeen_version": metadata.version("pykeen"),
                                     "models": models})


if __name__ == "__main__":
    main()
