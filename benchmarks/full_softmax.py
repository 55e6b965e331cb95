"""Times a step against all entities (1vsAll, ComplEx, Adagrad per element, n3) and one of compiled PyTorch.

    python -m benchmarks.full_softmax --json FILE [--sizes 14k 123k 2500k] [--matmul tf32] [--skip_torch]
    python -m benchmarks.full_softmax --json FILE --gpu -1

A step is two batches of 1000, one of each direction. Figures, by size: ms of a step here and in PyTorch (the same
loss, penalty and optimizer, compiled, in TF32), their quotient, TFLOP/s (four products a batch: scores twice, and both
gradients; three on the CPU, which holds scores), and the peak of device memory without tables and states, over the
entity table. On the CPU, by the same cores, in float32: [softmax_cpu_over_torch], the quotient for FB15k-237's 14,541
entities by 200 numbers. Whole trainings and their MRR: benchmarks/recipes.py, with presets named _softmax.
"""

from __future__ import annotations

import gc
import time

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

    def __init__(self, device, triples, entities, dim, matmul):
        loss = LossConfig("Softmax", regularization_coefficient=3 * COEFFICIENT)
        step = StepConfig("ComplEx", dim, dim, 12.0, 1.0, RATE, loss)
        config = FullSoftmaxConfig(step, optimizer="adagrad", regularizer="n3")
        self.device = device
        floats = state_floats("adagrad", dim)
        self.tables = [_native.HostTable(rows, dim, False, floats) for rows in (entities, RELATIONS)]
        for stream, table in enumerate(self.tables):
            bound = START * 3**0.5
            table.init_uniform(-bound, bound, 1, stream)
        self.rows = [ResidentRows(table, device) for table in self.tables]
        self.sampler = Sampler(*triples, entities, RELATIONS, SamplerConfig(BATCH, 0, 1))
        self.step = DeviceStep(step, device, make_gradients=lambda _, device, sums: FullSoftmax(
            config, device, sums, OneAnswer(device, self.sampler.batch_size), matmul))

    def run(self, batch):
        for rows, ids in zip(self.rows, (batch.entities, batch.relations)):
            rows.announce(batch.step, ids)
            rows.begin(batch.step)
        self.step.run_rows(batch, *self.rows)


def random_triples(entities):
    random = np.random.default_rng(0)
    return [random.integers(0, bound, TRIPLES) for bound in (entities, RELATIONS, entities)]


def our_step(entities, dim, matmul, gpu):
    """ms of a step, and the peak of device memory without tables and states, in bytes."""
    device = CudaDevice(gpu) if gpu >= 0 else HostDevice()
    before = torch.cuda.memory_allocated() if gpu >= 0 else 0  # of other sizes, that captured graphs still hold
    training = Training(device, random_triples(entities), entities, dim, matmul)
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
        flop = 2 * 2 * (4 if on_gpu else 3) * BATCH * entities * dim  # two batches
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
    parser = result_file.parser(__doc__, required=True)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="(those of the device)")
    parser.add_argument("--matmul", choices=MATMULS, default="tf32")
    parser.add_argument("--skip_torch", action="store_true")
    parser.add_argument("--gpu", type=int, default=0)
    options = parser.parse_args()
    figures = result_file.read(options.json)
    figures["speed_cpu" if options.gpu < 0 else f"speed_{options.matmul}"] = found = speed(options)
    if options.gpu < 0:
        figures["softmax_cpu_over_torch"] = found.get(f"softmax_over_torch_{ON_CPU[0]}")
    result_file.write(options.json, figures)


if __name__ == "__main__":
    main()
