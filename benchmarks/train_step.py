"""Times the C++ training step alone, phase by phase, and its floor.

    python -m benchmarks.train_step --json FILE [--models TransE_l2 ...] [--threads N] [--steps N]

The batch is synthetic, of FB15k's size: 14,951 entities and 1,345 relations drawn with a skew, dim 400, batch 1024,
256 negatives per chunk. Tables lie in host memory and are updated in place.

The floor of a step is the larger of its arithmetic and its bytes, at rates measured in the same run. Arithmetic, for P
pairs of a positive and a negative and rows of D floats:
    dot, L2    the three products: scores, gradients of queries, gradients of negatives; 6 P D operations
    L1         7 P D vector operations: difference, magnitude, sum; difference, sign and a multiply-add for each side.
               Counted at two to the time of a product's multiply-add, the most that any processor of today issues.
    RotatE     P D / 2 complex pairs: a square root for the score; a square root and a quotient for the gradients
    TransR     products again: each group of edges with one relation in one chunk projects the negatives and brings
               gradients back, each edge has a gradient of the matrix
Bytes are each distinct row read and written once, and a matrix of RESCAL read once more, since its gradient needs the
scores of the whole chunk.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from dglke_frugal import _native
from dglke_frugal.models import find_model, model_names
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

from . import result_file

ENTITIES, RELATIONS, HIDDEN, BATCH, NEGATIVES = 14951, 1345, 400, 1024, 256
PHASES = ("queries", "scores", "negatives", "updates")
FLAGS = {"RotatE": (200, True, False),
         "SimplE": (400, True, True),
         "RESCAL": (200, False, False),
         "TransR": (100, False, False)}


def skewed(random, count, size):
    """`size` ids below `count`, low ones more often, roughly as in FB15k."""
    return np.minimum((count * random.power(0.35, size)).astype(np.int64), count - 1)


def make_batches(random, count):
    """Batches that corrupt tails and heads in turn."""
    return [_native.make_batch(skewed(random, ENTITIES, BATCH), skewed(random, RELATIONS, BATCH),
                               skewed(random, ENTITIES, BATCH), random.integers(0, ENTITIES, BATCH), bool(i % 2),
                               NEGATIVES, ENTITIES, RELATIONS, step=i)
            for i in range(count)]


def product_rate(threads):
    """Floating-point operations per second of a large float32 matrix product, best of five."""
    import torch

    torch.set_num_threads(threads)
    a = torch.randn(2048, 2048)
    best = min(timed(lambda: a @ a) for _ in range(5))
    return 2 * 2048**3 / best


def elementwise_rate(threads, operation):
    """Numbers per second of an elementwise operation on float32 numbers in the cache: of one thread, times threads."""
    import torch

    torch.set_num_threads(1)
    a, b, out = torch.rand(65536) + 1, torch.rand(65536) + 1, torch.empty(65536)
    best = min(timed(lambda: operation(a, b, out)) for _ in range(100))
    return threads * len(a) / best


def measured_rates(threads):
    """What floors are made of: operations, numbers or bytes per second."""
    import torch

    return {"product": product_rate(threads),
            "root": elementwise_rate(threads, lambda a, b, out: torch.sqrt(a, out=out)),
            "quotient": elementwise_rate(threads, lambda a, b, out: torch.div(a, b, out=out)),
            "copy": copy_rate(threads)}


def copy_rate(threads):
    """Bytes read plus written per second when 256 MiB are copied, best of five."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.empty(1 << 26), torch.zeros(1 << 26)
    best = min(timed(lambda: a.copy_(b)) for _ in range(5))
    return 2 * a.nbytes / best


def floor_seconds(model, batch, dims, rates):
    """The least that a step of `batch` can take; see the top of this file."""
    pairs = BATCH * NEGATIVES
    if dims.projection:
        chunk = np.arange(BATCH) // batch.chunk_size
        groups = len(np.unique(np.stack([chunk, np.asarray(batch.relation)]), axis=1).T)
        arithmetic = 2 * dims.projection * NEGATIVES * (2 * groups + BATCH) / rates["product"]
    elif model.similarity == "l1":
        arithmetic = 7 * pairs * dims.entity / rates["product"]
    elif model.similarity == "modulus":
        arithmetic = pairs * dims.entity / 2 * (2 / rates["root"] + 1 / rates["quotient"])
    else:
        arithmetic = 6 * pairs * dims.entity / rates["product"]
    floats = len(batch.entities) * dims.entity + len(batch.relations) * (dims.relation + (dims.projection or 0))
    again = len(batch.relations) * dims.relation if dims.relation > dims.entity else 0
    return max(arithmetic, (8 * floats + 4 * again) / rates["copy"])


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
    step = native_step(StepConfig(name, dims.entity, dims.relation, gamma, bound, 0.1, LossConfig(adversarial=True)),
                       threads)
    times = []
    for i in range(steps + 4):
        if i == 4:  # the first ones make the buffers
            before = step.phase_seconds
        times.append(timed(lambda: step.run_in_place(batches[i % len(batches)], *tables)))
    phases = {phase: 1e3 * (after - start) / steps for phase, start, after in zip(PHASES, before, step.phase_seconds)}
    floor = 1e3 * statistics.mean(floor_seconds(model, batch, dims, rates) for batch in batches)
    return {"ms": 1e3 * statistics.median(times[4:]), "best_ms": 1e3 * min(times[4:]), "floor_ms": floor,
            "phases_ms": phases, "dims": [dims.entity, dims.relation, dims.projection]}


def main():
    parser = result_file.parser(__doc__)
    parser.add_argument("--models", nargs="+", default=[n for n in model_names() if n != "TransE"])
    parser.add_argument("--threads", type=int, default=_native.num_threads())
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    rates = measured_rates(args.threads)
    print(f"{args.threads} threads: matrix product {rates['product'] / 1e9:.0f} GFLOP/s, "
          f"{rates['root'] / 1e9:.1f} G roots and {rates['quotient'] / 1e9:.1f} G quotients/s, "
          f"copy {rates['copy'] / 1e9:.1f} GB/s")
    batches = make_batches(np.random.default_rng(0), 16)
    results = {}
    for name in args.models:
        results[name] = result = measure(name, batches, args.steps, args.threads, rates)
        phases = ", ".join(f"{phase} {ms:.2f}" for phase, ms in result["phases_ms"].items())
        print(f"{name:10s} {result['ms']:8.2f} ms a step "
              f"(best {result['best_ms']:.2f}, floor {result['floor_ms']:.2f}): {phases}")
    if args.json:
        report = {"threads": args.threads, "rates": rates, "models": results,
                  "step_ms": {name: result["ms"] for name, result in results.items()}}
        result_file.write(args.json, report)


if __name__ == "__main__":
    main()
