"""Times the C++ training step alone, phase by phase, beside its floor.

    python -m benchmarks.train_step --json FILE [--models TransE_l2 ...] [--threads N] [--steps N]

The batch is synthetic, of FB15k's size: 14,951 entities and 1,345 relations drawn with a skew, dim 400, batch 1024,
256 negatives per chunk. Tables lie in host memory and are updated in place. The floor of a step is the larger of its
arithmetic at this machine's measured matrix-product rate and its bytes at the measured copy rate, where arithmetic is
the three products of the L2 and dot models (scores, gradients of queries, gradients of negatives) and bytes are each
distinct row read and written once; for models whose arithmetic is no such product only the bytes are counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from dglke_frugal import _native
from dglke_frugal.files import replace_file
from dglke_frugal.models import find_model, model_names
from dglke_frugal.training.step import LossConfig, StepConfig, make_step

ENTITIES, RELATIONS, HIDDEN, BATCH, NEGATIVES = 14951, 1345, 400, 1024, 256
PHASES = ("queries", "scores", "negatives", "updates")
FLAGS = {
    "RotatE": (200, True, False),
    "SimplE": (400, True, True),
    "RESCAL": (200, False, False),
    "TransR": (100, False, False),
}


def skewed(random, count, size):
    """`size` ids below `count`, low ones more often, roughly as in FB15k."""
    return np.minimum((count * random.power(0.35, size)).astype(np.int64), count - 1)


def make_batches(random, count):
    """Batches that corrupt tails and heads in turn."""
    return [
        _native.make_batch(
            skewed(random, ENTITIES, BATCH),
            skewed(random, RELATIONS, BATCH),
            skewed(random, ENTITIES, BATCH),
            random.integers(0, ENTITIES, BATCH),
            bool(i % 2),
            NEGATIVES,
            ENTITIES,
            RELATIONS,
            step=i,
        )
        for i in range(count)
    ]


def product_rate(threads):
    """Floating-point operations per second of a large float32 matrix product, best of five."""
    import torch

    torch.set_num_threads(threads)
    a = torch.randn(2048, 2048)
    best = min(timed(lambda: a @ a) for _ in range(5))
    return 2 * 2048**3 / best


def copy_rate(threads):
    """Bytes read plus written per second when 256 MiB are copied, best of five."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.empty(1 << 26), torch.zeros(1 << 26)
    best = min(timed(lambda: a.copy_(b)) for _ in range(5))
    return 2 * a.nbytes / best


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(name, batches, steps, threads, rates):
    """Median milliseconds per step of one model, its phases, and its floor."""
    model = find_model(name)
    hidden, double_entity, double_relation = FLAGS.get(name, (HIDDEN, False, False))
    dims = model.dims(hidden, double_entity, double_relation)
    gamma = 19.9
    bound = model.embedding_range(gamma, hidden)
    entities, relations = _native.HostTable(ENTITIES, dims.entity), _native.HostTable(RELATIONS, dims.relation)
    tables = [entities, relations]
    if dims.projection:
        tables.append(_native.HostTable(RELATIONS, dims.projection))
    for stream, table in enumerate(tables):
        table.init_uniform(-bound, bound, 1, stream)
    step = make_step(
        StepConfig(name, dims.entity, dims.relation, gamma, bound, 0.1, LossConfig(adversarial=True)), threads
    )
    times = []
    for i in range(steps + 4):
        if i == 4:  # the first ones make the buffers
            before = step.phase_seconds
        times.append(timed(lambda: step.run_in_place(batches[i % len(batches)], *tables)))
    phases = {phase: 1e3 * (after - start) / steps for phase, start, after in zip(PHASES, before, step.phase_seconds)}
    rows = statistics.mean(
        len(b.entities) * dims.entity + len(b.relations) * (dims.relation + (dims.projection or 0)) for b in batches
    )
    flops = 6 * BATCH * NEGATIVES * dims.entity if model.similarity in ("dot", "l2") else 0
    floor = 1e3 * max(flops / rates["product"], 8 * rows / rates["copy"])
    return {
        "ms": 1e3 * statistics.median(times[4:]),
        "best_ms": 1e3 * min(times[4:]),
        "floor_ms": floor,
        "phases_ms": phases,
        "dims": [dims.entity, dims.relation, dims.projection],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--models", nargs="+", default=[n for n in model_names() if n != "TransE"])
    parser.add_argument("--threads", type=int, default=_native.num_threads())
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    rates = {"product": product_rate(args.threads), "copy": copy_rate(args.threads)}
    print(
        f"{args.threads} threads: matrix product {rates['product'] / 1e9:.0f} GFLOP/s, "
        f"copy {rates['copy'] / 1e9:.1f} GB/s"
    )
    batches = make_batches(np.random.default_rng(0), 16)
    results = {}
    for name in args.models:
        results[name] = result = measure(name, batches, args.steps, args.threads, rates)
        phases = ", ".join(f"{phase} {ms:.2f}" for phase, ms in result["phases_ms"].items())
        print(
            f"{name:10s} {result['ms']:8.2f} ms a step "
            f"(best {result['best_ms']:.2f}, floor {result['floor_ms']:.2f}): {phases}"
        )
    if args.json:
        report = {
            "threads": args.threads,
            "rates": rates,
            "models": results,
            "step_ms": {name: result["ms"] for name, result in results.items()},
        }
        with replace_file(args.json) as file:
            file.write(json.dumps(report, indent=1).encode())


if __name__ == "__main__":
    main()
