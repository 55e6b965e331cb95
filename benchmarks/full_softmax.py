"""Times a step against all entities (1vsAll, ComplEx, Adagrad per element, n3) and one of compiled PyTorch, and trains
to a quality.

    python -m benchmarks.full_softmax --json FILE [--sizes 14k 123k 2500k] [--matmul tf32] [--skip_torch]
    python -m benchmarks.full_softmax --json FILE --gpu -1
    python -m benchmarks.full_softmax --json FILE --data FOLDER --graph wn18rr --dim 200 --epochs 50 --matmul tf32
    python -m benchmarks.full_softmax --json FILE --data FOLDER --graph FB15k-237 --dim 200 --epochs 1 --gpu -1

A step is two batches of 1000, one of each direction. Figures, by size: ms of a step here and in PyTorch (the same
loss, penalty and optimizer, compiled, in TF32), their quotient, TFLOP/s (four products a batch: scores twice, and both
gradients; three on the CPU, which holds scores), and the peak of device memory without tables and states, over the
entity table. On the CPU, by the same cores, in float32: [softmax_cpu_over_torch], the quotient for FB15k-237's 14,541
entities by 200 numbers. With --graph:
MRR and hits of the test triples, filtered, ties against us, heads ranked as tails of inverse relations, and seconds of
training; on the CPU also GFLOP/s of the steps, and of a product in PyTorch of a batch with all entities, before and
after.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from dglke_frugal import _native
from dglke_frugal.options import MATMULS, state_floats
from dglke_frugal.store.device.cuda_device import CudaDevice
from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.store.rows.resident_rows import ResidentRows
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.full_softmax.config import FullSoftmaxConfig
from dglke_frugal.training.full_softmax.full_softmax import FullSoftmax
from dglke_frugal.training.full_softmax.targets import OneAnswer
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

from . import result_file

SIZES = {"14k": (14541, 2000), "123k": (123182, 2000), "2500k": (2500604, 100), "14k_200": (14541, 200)}
ON_GPU, ON_CPU = ["14k", "123k", "2500k"], ["14k_200"]  # sizes by default
RELATIONS, BATCH, TRIPLES = 237, 1000, 200_000
RATE, START, COEFFICIENT = 0.1, 1e-3, 0.05  # COEFFICIENT: without the third of lp's formula, as Lacroix et al. have it
WARM, TIMED = 24, 20  # batches; work is captured on a GPU when it runs for the third time, of six


class Training:
    """Tables with one step after the other."""

    def __init__(self, device, triples, entities, relations, dim, matmul, batch=BATCH, inverse=0, seed=1,
                 coefficient=COEFFICIENT, rate=RATE, relation_prediction=0.0):
        loss = LossConfig("Softmax", regularization_coefficient=3 * coefficient)
        step = StepConfig("ComplEx", dim, dim, 12.0, 1.0, rate, loss)
        config = FullSoftmaxConfig(step, optimizer="adagrad", regularizer="n3",
                                   relation_prediction=relation_prediction)
        self.device = device
        floats = state_floats("adagrad", dim)
        self.tables = [_native.HostTable(rows, dim, False, floats) for rows in (entities, relations)]
        for stream, table in enumerate(self.tables):
            bound = START * 3**0.5
            table.init_uniform(-bound, bound, seed, stream)
        self.rows = [ResidentRows(table, device) for table in self.tables]
        self.sampler = Sampler(*triples, entities, relations, SamplerConfig(batch, 0, seed, inverse=inverse))
        self.step = DeviceStep(step, device, make_gradients=lambda _, device, sums: FullSoftmax(
            config, device, sums, OneAnswer(device, self.sampler.batch_size), matmul))

    def run(self, batch):
        for rows, ids in zip(self.rows, (batch.entities, batch.relations)):
            rows.announce(batch.step, ids)
            rows.begin(batch.step)
        self.step.run_rows(batch, *self.rows)

    def embeddings(self):
        for rows in self.rows:
            rows.drain()
        return [table.embeddings for table in self.tables]


def floating_point_operations(entities, dim, batch, on_gpu):
    """Of the products of a batch with all entities."""
    return 2 * (4 if on_gpu else 3) * batch * entities * dim


def random_triples(entities):
    random = np.random.default_rng(0)
    return [random.integers(0, bound, TRIPLES) for bound in (entities, RELATIONS, entities)]


def our_step(entities, dim, matmul, gpu):
    """ms of a step, and the peak of device memory without tables and states, in bytes."""
    device = CudaDevice(gpu) if gpu >= 0 else HostDevice()
    before = torch.cuda.memory_allocated() if gpu >= 0 else 0  # of other sizes, that captured graphs still hold
    training = Training(device, random_triples(entities), entities, RELATIONS, dim, matmul)
    batches = [training.sampler.batch(step) for step in range(WARM + TIMED)]
    for batch in batches[:WARM]:
        training.run(batch)
    training.step.take_losses()
    began = time.perf_counter()
    for batch in batches[WARM:]:
        training.run(batch)
    device.synchronize()
    seconds = time.perf_counter() - began
    held = sum(rows.cache.numel() * 4 for rows in training.rows)
    peak = torch.cuda.max_memory_allocated() - held - before if gpu >= 0 else 0
    return 2e3 * seconds / TIMED, peak


def torch_step(entities, dim, device):
    """ms of a step of compiled PyTorch; on a GPU in TF32."""
    torch.backends.cuda.matmul.allow_tf32 = True
    half = dim // 2
    table = (START * torch.randn(entities, dim, device=device)).requires_grad_()
    relation = (START * torch.randn(RELATIONS, dim, device=device)).requires_grad_()
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    optimizer = torch.optim.Adagrad([table, relation], lr=RATE)

    def loss_of(known, of, answer, sign):
        h, r, t = table[known], relation[of], table[answer]
        a, b, c, d = h[:, :half], h[:, half:], r[:, :half], sign * r[:, half:]
        query = torch.cat([a * c - b * d, a * d + b * c], 1)
        modulus = [(x[:, :half] ** 2 + x[:, half:] ** 2) ** 1.5 for x in (h, r, t)]
        return F.cross_entropy(query @ table.t(), answer) + COEFFICIENT * sum(x.sum() for x in modulus) / BATCH

    compiled = torch.compile(loss_of)
    columns = [torch.from_numpy(column).to(device) for column in random_triples(entities)]

    def step(number):
        for sign in (1.0, -1.0):
            rows = slice(number % 100 * BATCH, number % 100 * BATCH + BATCH)
            h, r, t = (column[rows] for column in columns)
            optimizer.zero_grad(set_to_none=True)
            compiled(*((h, r, t) if sign > 0 else (t, r, h)), sign).backward()
            optimizer.step()

    for number in range(3):
        step(number)
    synchronize()
    began = time.perf_counter()
    for number in range(TIMED // 2):
        step(number)
    synchronize()
    return 2e3 * (time.perf_counter() - began) / TIMED


def load_graph(folder: Path):
    """(entities, relations, {split: (n, 3) ids})."""
    def names(file):
        lines = (folder / file).read_text().split("\n")
        return {name: int(number) for number, name in (line.split("\t") for line in lines if line)}

    entities, relations = names("entities.dict"), names("relations.dict")
    splits = {}
    for split in ("train", "valid", "test"):
        lines = [line.split("\t") for line in (folder / f"{split}.txt").read_text().split("\n") if line]
        splits[split] = np.array([(entities[h], relations[r], entities[t]) for h, r, t in lines])
    return len(entities), len(relations), splits


def with_inverses(triples, relations):
    """(2 n, 3): the triples, and those of inverse relations."""
    h, r, t = triples.T
    return np.concatenate([triples, np.stack([t, r + relations, h], 1)])


def ranks_of(entities, relations, triples, known, batch=500):
    """Ranks of tails, 1 for the best, with known ones left out and ties against us."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    answers = {}
    for h, r, t in known:
        answers.setdefault((h, r), []).append(t)
    table, relation = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in (entities, relations))
    half, ranks = table.shape[1] // 2, []
    torch.backends.cuda.matmul.allow_tf32 = False
    for first in range(0, len(triples), batch):
        some = triples[first : first + batch]
        h, r, t = torch.from_numpy(some).to(device).T
        a, b = table[h].split(half, 1)
        c, d = relation[r].split(half, 1)
        scores = torch.cat([a * c - b * d, a * d + b * c], 1) @ table.t()
        own = scores.gather(1, t[:, None])
        lists = [answers[h, r] for h, r, _ in some.tolist()]
        row = np.repeat(np.arange(len(some)), [len(each) for each in lists])
        scores[torch.from_numpy(row).to(device), torch.from_numpy(np.concatenate(lists)).to(device)] = -torch.inf
        ranks.append(((scores >= own).sum(1) + 1).cpu())
    return torch.cat(ranks).double()


def product_gflops(entities, dim, batch, seconds=2.0):
    """GFLOP/s of torch.mm on the CPU, (batch, dim) times (dim, entities): the median of what fits into `seconds`."""
    query, table, out = torch.rand(batch, dim), torch.rand(entities, dim), torch.empty(batch, entities)
    took, began = [], time.perf_counter()
    while len(took) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        torch.mm(query, table.t(), out=out)
        took.append(time.perf_counter() - start)
    return 2e-9 * batch * entities * dim / sorted(took)[len(took) // 2]


def train(options):
    """Figures of one training run to its end."""
    entities, relations, splits = load_graph(options.data / options.graph)
    columns = [np.ascontiguousarray(column) for column in splits["train"].T]
    splits = {name: with_inverses(triples, relations) for name, triples in splits.items()}
    device = CudaDevice(options.gpu) if options.gpu >= 0 else HostDevice()
    training = Training(device, columns, entities, 2 * relations, options.dim, options.matmul, options.batch, relations,
                      options.seed, options.coefficient, options.rate, options.relation_prediction)
    steps = options.steps or options.epochs * training.sampler.steps_per_epoch
    products = [product_gflops(entities, options.dim, options.batch)] if options.gpu < 0 else []
    began = time.perf_counter()
    with training.sampler.batches(0) as batches:
        for step in range(steps):
            training.run(next(batches))
    loss = training.step.take_losses().total
    seconds = time.perf_counter() - began
    flop = floating_point_operations(entities, options.dim, options.batch, options.gpu >= 0) * steps
    on_cpu = {}
    if products:
        products.append(product_gflops(entities, options.dim, options.batch))
        on_cpu = {"threads": torch.get_num_threads(), "gflops": 1e-9 * flop / seconds, "torch_product_gflops": products}
    known = [tuple(triple) for triples in splits.values() for triple in triples.tolist()]
    ranks = ranks_of(*training.embeddings(), splits["test"], known)
    return {"entities": entities, "dim": options.dim, "batch": options.batch, "epochs": options.epochs, "steps": steps,
            "coefficient": options.coefficient, "lr": options.rate, "matmul": options.matmul, "seed": options.seed,
            "training_s": seconds, "us_per_step": 1e6 * seconds / steps, "loss": loss,
            "relation_prediction": options.relation_prediction, "tflops": 1e-12 * flop / seconds, **on_cpu,
            "seconds_per_epoch": seconds / steps * training.sampler.steps_per_epoch,
            "mrr": float((1 / ranks).mean()), **{f"hits{k}": float((ranks <= k).double().mean()) for k in (1, 3, 10)}}


def speed(options):
    """Figures of a step, by size."""
    figures, on_gpu = {}, options.gpu >= 0
    for size in options.sizes or (ON_GPU if on_gpu else ON_CPU):
        entities, dim = SIZES[size]
        gc.collect()  # graphs of the size before, and what they hold
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        ms, peak = our_step(entities, dim, options.matmul, options.gpu)
        flop = 2 * floating_point_operations(entities, dim, BATCH, on_gpu)
        figures |= {f"softmax_ms_{size}": ms, f"softmax_tflops_{size}": 1e-9 * flop / ms}
        if on_gpu:
            figures[f"softmax_bytes_over_table_{size}"] = peak / (4 * entities * dim)
            torch.cuda.empty_cache()
        if not options.skip_torch:
            figures[f"torch_ms_{size}"] = torch_step(entities, dim, "cuda" if on_gpu else "cpu")
            figures[f"softmax_over_torch_{size}"] = figures[f"torch_ms_{size}"] / ms
            torch._dynamo.reset()
        print({name: round(value, 4) for name, value in figures.items() if name.endswith(size)}, flush=True)
    return figures


def main():
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="(those of the device)")
    parser.add_argument("--matmul", choices=MATMULS, default="tf32")
    parser.add_argument("--skip_torch", action="store_true")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--graph")
    for name, kind, default in (("dim", int, 200), ("batch", int, BATCH), ("epochs", int, 50), ("seed", int, 1),
                                ("coefficient", float, COEFFICIENT), ("rate", float, RATE),
                                ("relation_prediction", float, 0.0), ("steps", int, 0)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    options = parser.parse_args()
    figures = result_file.read(options.json)
    if options.graph:
        found = train(options)
        print(options.graph, found, flush=True)
        figures[f"{options.graph}_{options.dim}_{options.matmul}"] = found
    else:
        found = speed(options)
        figures["speed_cpu" if options.gpu < 0 else f"speed_{options.matmul}"] = found
        if options.gpu < 0:
            figures["softmax_cpu_over_torch"] = found.get(f"softmax_over_torch_{ON_CPU[0]}")
    result_file.write(options.json, figures)


if __name__ == "__main__":
    main()
