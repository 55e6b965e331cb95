"""Times the CUDA kernels of a training step, each in a captured graph, beside their floors.

    python -m benchmarks.device_gradients [--json FILE] [--models TransE_l2 ...] [--matmul fp32 tf32x3 tf32]

The batches are those of benchmarks/train_step.py, on random tables that lie on the device. Microseconds, medians:

    gradients, update    one call each, behind one another in a graph; rows are gathered with the gradients
    all                  both of them
    kernels              those of `all`, as the profiler sees them
    floor                of `all`: the larger of its arithmetic at the measured rate of a large product, and its
                         distinct rows read and written once at the measured copy rate

The arithmetic is that of the CPU's formulas: a multiply-add per pair and column in each of three products for the dot
and L2 models, and as many times more instructions as OPERATIONS says for the others. Products of another precision
than fp32 are measured beside it, as MODEL_PRECISION, with what their losses and gradients of negatives are off from
fp32's: loss_off, gradient_off, relative (the gradients' lengths as vectors).
"""

from __future__ import annotations

import argparse
import itertools
import statistics

import numpy as np
import torch

from dglke_frugal import _native
from dglke_frugal.models import find_model
from dglke_frugal.store.cuda_device import CudaDevice
from dglke_frugal.store.plan_kernels import FROM_HOST, TO_CACHE, update_tables
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import KERNEL_MATMULS, LossConfig, StepConfig

from . import result_file
from .device_step import kernel_microseconds, rates
from .train_step import BATCH, ENTITIES, FLAGS, HIDDEN, NEGATIVES, RELATIONS, make_batches

MODELS = ("TransE_l2", "DistMult", "ComplEx", "SimplE", "TransE_l1", "RotatE")
OPERATIONS = {"TransE_l1": 3.0, "RotatE": 7.0}  # instructions per pair and column, over a product's; else 1
REPEATS, CALLS = 20, 8


class Case:
    """One batch on the device, with all that its kernels read and write."""

    def __init__(self, config, step, batch, tables, device, matmul):
        self.matmul, self.dims, self.tables = matmul, (config.entity_dim, config.relation_dim), tables
        self.step, self.corrupt_head = step, batch.corrupt_head
        self.layout = _native.StepBlock(len(batch), batch.chunk_size, batch.negatives_per_chunk, batch.weighted, [
            ("entity", len(batch.entities), 0, False), ("relation", len(batch.relations), 0, False)])
        block = np.zeros(self.layout.bytes, np.uint8)
        self.layout.pack(batch, block)
        self.block = torch.from_numpy(block).cuda()
        fields = {name: self.block[begin : begin + np.dtype(dtype).itemsize * length].view(getattr(torch, dtype))
                  for name, dtype, begin, length in self.layout.fields}
        self.ids = [torch.from_numpy(np.array(ids, np.int64)).cuda() for ids in (batch.entities, batch.relations)]
        sources = [torch.full(ids.shape, FROM_HOST, dtype=torch.int32, device="cuda") for ids in self.ids]
        self.reads = [(dim, table, None, ids, source, "all")
                      for dim, table, ids, source in zip(self.dims, tables, self.ids, sources)]
        self.leave = [torch.full(ids.shape, TO_CACHE, dtype=torch.uint8, device="cuda") for ids in self.ids]
        self.records = [device.zeros(len(ids), table.shape[1]) for ids, table in zip(self.ids, tables)]
        self.gradients_of = [device.zeros(rows, dim) for rows, dim in (
            (len(batch.entities), self.dims[0]), (len(batch.negative), self.dims[0]), (len(batch), self.dims[1]))]
        self.squares = tuple(device.zeros(len(gradients)) for gradients in self.gradients_of)
        self.sums = device.zeros(4, dtype=np.float64)
        self.workspace = device.zeros(_native.workspace_floats(step, self.layout))
        positive, negative, relation = self.gradients_of
        self.entries = [
            [(positive, fields["sum_offset"], fields["sum_order"], self.squares[0]),
             (negative, fields["negative_offset"], fields["negative_occurrence"], self.squares[1])],
            [(relation, fields["relation_offset"], fields["relation_occurrence"], self.squares[2])],
        ]

    def gradients(self):
        _native.compute_gradients(self.step, self.layout, self.corrupt_head, self.block, *self.records, *self.reads,
                                  *self.gradients_of, self.squares, self.sums, self.workspace, self._stream(),
                                  products=self.matmul)

    def found(self):
        """The losses, and the gradients of negatives, in float64."""
        self.sums.zero_()
        self.gradients()
        return self.sums.cpu(), self.gradients_of[1].double().cpu()

    def update(self):
        each = zip(self.dims, self.tables, self.leave, self.ids, self.records, self.entries)
        update_tables([(dim, table, table, None, leave, ids, records, entries, None)
                       for dim, table, leave, ids, records, entries in each], 0.01, self._stream())

    def all(self):
        self.gradients()
        self.update()

    @staticmethod
    def _stream():
        return torch.cuda.current_stream().cuda_stream


PARTS = ("gradients", "update", "all")


def microseconds(cases, part):
    """Of one call, median over replays of a graph that works on all cases in turn."""
    graph, calls = torch.cuda.CUDAGraph(), [getattr(case, part) for case in cases]
    for call in calls:
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            calls[i % len(calls)]()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / CALLS)
    return statistics.median(times[2:])


def off(found, exact):
    """How far vectors are from the exact ones, relative."""
    return ((found - exact).norm() / exact.norm()).item()


def measure(model, matmul, batches, peak, device):
    dims = find_model(model).dims(*FLAGS.get(model, (HIDDEN, False, False)))
    config = StepConfig(model, dims.entity, dims.relation, 12.0, 0.1, 0.01, LossConfig(adversarial=True))
    random = np.random.default_rng(1)
    tables = []
    for rows, dim in ((ENTITIES, dims.entity), (RELATIONS, dims.relation)):
        table = np.zeros((rows, _native.HostTable(1, dim).stride), np.float32)
        table[:, :dim] = random.uniform(-0.1, 0.1, (rows, dim))
        tables.append(torch.from_numpy(table).cuda())
    step = native_step(config)
    exact = Case(config, step, batches[0], tables, device, "fp32").found()
    cases = [Case(config, step, batch, tables, device, matmul) for batch in batches]
    loss_off, gradient_off = (off(*pair) for pair in zip(cases[0].found(), exact))
    found = {part: microseconds(cases, part) for part in PARTS}
    products = 3 * 2 * BATCH * NEGATIVES * dims.entity * OPERATIONS.get(model, 1.0)
    rows = statistics.mean(len(b.entities) * dims.entity + len(b.relations) * dims.relation for b in batches)
    found["floor"] = 1e6 * max(products / peak["product"], 8 * rows / peak["copy"])
    kernels = kernel_microseconds(lambda: [cases[i % len(cases)].all() for i in range(CALLS)], CALLS)
    rounded = {"loss_off": loss_off, "gradient_off": gradient_off} if matmul != "fp32" else {}
    return {**found, "all_over_floor": found["all"] / found["floor"], **rounded, "kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, help="write the results here")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--matmul", nargs="+", default=["fp32"], choices=KERNEL_MATMULS)
    options = parser.parse_args()
    device = CudaDevice(0)
    peak = rates(device)
    batches = make_batches(np.random.default_rng(0), 4)
    report = {"rates": peak, "models": {}}
    for model, matmul in itertools.product(options.models, options.matmul):
        name = model if matmul == "fp32" else f"{model}_{matmul}"
        found = report["models"][name] = measure(model, matmul, batches, peak, device)
        rounded = "".join(f"  {kind} {found[kind]:.1e}" for kind in ("loss_off", "gradient_off") if kind in found)
        print(f"{name:10s} " + "".join(f"{part} {found[part]:7.1f}  " for part in (*PARTS, "floor"))
              + f"ratio {found['all_over_floor']:.1f}{rounded}")
        print("           " + ", ".join(f"{name} {us}" for name, us in found["kernels"].items()), flush=True)
    if options.json:
        result_file.write(options.json, report)


if __name__ == "__main__":
    main()
