"""Times a step against all entities (1vsAll, ComplEx, Adagrad per element, n3) and one of compiled PyTorch.

    python -m benchmarks.full_softmax --json FILE [--sizes 14k 123k 2500k] [--matmul tf32] [--skip_torch]
    python -m benchmarks.full_softmax --json FILE --gpu -1

A step is two batches of 1000, one of each direction; both take turns, and medians count. Figures, by size: ms of a
step here and in PyTorch (the same loss, penalty and optimizer, compiled, in TF32), their quotient, TFLOP/s (four
products a batch: scores twice, and both gradients; three on the CPU, which holds scores), and the peak of device memory
without tables and states, over the entity table. On the CPU, by the same cores, in float32: [softmax_cpu_over_torch],
the quotient for FB15k-237's 14,541 entities by 200 numbers. FILE keeps the figures of other parts.
Whole trainings and their MRR: benchmarks/recipes.py, with presets named _softmax.
"""

from __future__ import annotations

import gc
import statistics
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
WARM = 24  # batches; work is captured on a GPU when it runs for the third time, of six
ROUNDS, STEPS = 9, 4  # the steps of each round


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


class OurSteps:
    """Steps of this project."""

    def __init__(self, entities, dim, matmul, gpu):
        self.device = CudaDevice(gpu) if gpu >= 0 else HostDevice()
        self.training = Training(self.device, random_triples(entities), entities, dim, matmul)
        self.number = 0
        self.run(WARM // 2)
        self.training.step.take_losses()

    def run(self, steps):
        """Some steps, at whose end the device has done them. Returns their seconds."""
        batches = [self.training.sampler.batch(self.number + k) for k in range(2 * steps)]
        self.number += len(batches)
        began = time.perf_counter()
        for batch in batches:
            self.training.run(batch)
        self.device.synchronize()
        return time.perf_counter() - began

    def table_bytes(self):
        """Of tables and states on the device."""
        return sum(rows.cache.numel() * 4 for rows in self.training.rows)


class TorchSteps:
    """Steps of compiled PyTorch; on a GPU in TF32."""

    def __init__(self, entities, dim, device):
        torch.backends.cuda.matmul.allow_tf32 = True
        half = dim // 2
        table = (START * torch.randn(entities, dim, device=device)).requires_grad_()
        relation = (START * torch.randn(RELATIONS, dim, device=device)).requires_grad_()

        def loss_of(known, of, answer, sign):
            h, r, t = table[known], relation[of], table[answer]
            a, b, c, d = h[:, :half], h[:, half:], r[:, :half], sign * r[:, half:]
            query = torch.cat([a * c - b * d, a * d + b * c], 1)
            modulus = [(x[:, :half] ** 2 + x[:, half:] ** 2) ** 1.5 for x in (h, r, t)]
            return F.cross_entropy(query @ table.t(), answer) + COEFFICIENT * sum(x.sum() for x in modulus) / BATCH

        self.optimizer = torch.optim.Adagrad([table, relation], lr=RATE)
        self.synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.loss_of = torch.compile(loss_of)
        self.columns = [torch.from_numpy(column).to(device) for column in random_triples(entities)]
        self.number = 0
        self.run(3)

    def run(self, steps):
        """See OurSteps."""
        began = time.perf_counter()
        for number in range(self.number, self.number + steps):
            rows = slice(number % 100 * BATCH, number % 100 * BATCH + BATCH)
            h, r, t = (column[rows] for column in self.columns)
            for known, answer, sign in ((h, t, 1.0), (t, h, -1.0)):
                self.optimizer.zero_grad(set_to_none=True)
                self.loss_of(known, r, answer, sign).backward()
                self.optimizer.step()
        self.synchronize()
        self.number += steps
        return time.perf_counter() - began


def speed(options):
    """Figures of a step, by size."""
    figures, on_gpu = {}, options.gpu >= 0
    for size in options.sizes or (ON_GPU if on_gpu else ON_CPU):
        entities, dim = SIZES[size]
        gc.collect()  # graphs of the size before, and what they hold
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if on_gpu else 0  # of other sizes, that captured graphs still hold
        sides = {"softmax": OurSteps(entities, dim, options.matmul, options.gpu)}
        if on_gpu:
            peak = torch.cuda.max_memory_allocated() - sides["softmax"].table_bytes() - before
            figures[f"softmax_bytes_over_table_{size}"] = peak / (4 * entities * dim)
            torch.cuda.empty_cache()
        if not options.skip_torch:
            sides["torch"] = TorchSteps(entities, dim, "cuda" if on_gpu else "cpu")
        seconds = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, side in sides.items():
                seconds[name].append(side.run(STEPS))
        ms = {name: 1e3 * statistics.median(found) / STEPS for name, found in seconds.items()}
        flop = 2 * 2 * (4 if on_gpu else 3) * BATCH * entities * dim  # two batches
        figures |= {f"{name}_ms_{size}": found for name, found in ms.items()}
        figures[f"softmax_tflops_{size}"] = 1e-9 * flop / ms["softmax"]
        if not options.skip_torch:
            figures[f"softmax_over_torch_{size}"] = ms["torch"] / ms["softmax"]
            torch._dynamo.reset()
        print({name: round(value, 4) for name, value in figures.items() if name.endswith(size)}, flush=True)
    return figures


def main():
    """Entry point."""
    parser = result_file.parser(__doc__, required=True, kept="parts")
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
