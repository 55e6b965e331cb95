"""Triples that one core trains in a second, compared with PyKEEN.

    python -m benchmarks.pykeen --json FILE --data_path P [--repeats 3] [--models TransE_l2 ...]

FB15k, dim 400 (RotatE: 200 complex numbers), batch 1024, 256 negatives, self-adversarial weights, Adagrad. Legs of a
model, in turn, medians over the repeats: pykeen (its sLCWA loop, which draws negatives for each triple), own (ours with
--neg_chunk_size 1: each triple has negatives of its own, too) and shared (ours by default: a chunk of triples shares
its negatives, as in DGL-KE). Seconds are processor time of all threads of a leg, which has one that computes, so that
other programs on the machine count little. PyKEEN's memory is kept between steps, which makes it faster than by
default.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from typing import Dict

from dglke_frugal.data import load_graph

from . import result_file
from .train import BATCH, NEGATIVES, RECIPES

SECONDS = 10.0  # of PyKEEN's leg
STEPS = {"own": (5, 85), "shared": (50, 550)}  # of two runs, whose difference counts
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**34)}
PYKEEN = {"TransE_l2": ("TransE", {"embedding_dim": 400, "scoring_fct_norm": 2}),
          "DistMult": ("DistMult", {"embedding_dim": 400}),
          "ComplEx": ("ComplEx", {"embedding_dim": 200}),
          "RotatE": ("RotatE", {"embedding_dim": 200})}


def pykeen_rate(data_path: str, model: str) -> float:
    """Triples/s of PyKEEN's loop, which runs in a process of its own: its memory is set up at its start."""
    code = f"from benchmarks.pykeen import train; print(train({data_path!r}, {model!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, **KEEP_MEMORY})
    if done.returncode:
        raise SystemExit(f"PyKEEN's run failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def train(data_path: str, model: str) -> float:
    """Triples/s of some batches of FB15k, after one that does not count."""
    import time

    import numpy as np
    import torch
    from pykeen.losses import NSSALoss
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    torch.set_num_threads(1)
    graph = load_graph("FB15k", data_path)
    columns = [graph.train.head, graph.train.relation, graph.train.tail]
    triples = torch.from_numpy(np.stack(columns, axis=1).astype(np.int64))

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
        began = time.process_time()
        loop.train(part, num_epochs=1, batch_size=BATCH, use_tqdm=False)
        return time.process_time() - began

    once = seconds(1)
    batches = max(2, round(SECONDS / once))
    return batches * BATCH / seconds(batches)


def our_rate(data_path: str, model: str, leg: str) -> float:
    """Triples/s of dglke_train."""
    few, many = STEPS[leg]
    seconds = [_our_seconds(data_path, model, leg, steps) for steps in (few, many)]
    return (many - few) * BATCH / (seconds[1] - seconds[0])


def _our_seconds(data_path: str, model: str, leg: str, steps: int) -> float:
    own = ["--neg_chunk_size", "1"] if leg == "own" else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "dglke_frugal", "train", "--dataset", "FB15k", "--data_path", data_path,
                        "--model_name", model, *RECIPES[model], "-adv", "--batch_size", str(BATCH), "--neg_sample_size",
                        str(NEGATIVES), *own, "--max_step", str(steps), "--no_save_emb", "--save_path", folder],
                       stdout=subprocess.DEVNULL, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = result_file.parser(__doc__, required=True)
    parser.add_argument("--data_path", required=True, help="the folder that holds FB15k")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=PYKEEN, default=list(PYKEEN))
    options = parser.parse_args()
    models: Dict[str, Dict[str, float]] = {}
    for model in options.models:
        rates: Dict[str, list] = {"pykeen": [], "own": [], "shared": []}
        for _ in range(options.repeats):
            rates["pykeen"].append(pykeen_rate(options.data_path, model))
            for leg in STEPS:
                rates[leg].append(our_rate(options.data_path, model, leg))
        models[model] = {leg: statistics.median(found) for leg, found in rates.items()}
        print(model, {leg: round(rate) for leg, rate in models[model].items()}, flush=True)
    result_file.write(options.json, {"pykeen_version": metadata.version("pykeen"), "models": models})


if __name__ == "__main__":
    main()
