"""Times the training step of devices alone, as single launches and as a CUDA graph, and what of it the host does.

    python -m benchmarks.device_step --json FILE [--device {cuda,cpu}] [--models TransE_l2 ...] [--matmul fp32]

The batches are those of benchmarks/train_step.py; entities lie on the device as a whole, so nothing crosses the bus but
the packed batch. Per model, medians of several runs of N steps:

    ms          a step, the device waited for at the end of the run
    host_ms     what the host takes to enqueue one, where it need not wait for the device
    floor_ms    the larger of the step's arithmetic (see `operations`) at the measured rate of a large product, and its
                distinct rows read and written once at the measured copy rate of device memory
    kernels     with --kernels, on a GPU: microseconds of a step by kernel, as the profiler sees them
"""
from __future__ import annotations

import argparse
import re
import statistics
import time

import numpy as np
import torch

from dglke_frugal import _native
from dglke_frugal.config import MATMULS
from dglke_frugal.models import find_model, model_names
from dglke_frugal.store.cuda_device import CudaDevice
from dglke_frugal.store.device import Device
from dglke_frugal.store.device_rows import STEPS_ON_DEVICE, ResidentRows
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

from . import result_file
from .train_step import BATCH, ENTITIES, FLAGS, HIDDEN, NEGATIVES, RELATIONS, make_batches

REPEATS, WARM_UP = 5, 16


def rate_of(device, work, amount):
    """amount per second of `work`, best of five runs of ten."""

    def run():
        began = time.perf_counter()
        for _ in range(10):
            device.submit(work)
        device.synchronize()
        return (time.perf_counter() - began) / 10

    run()
    return amount / min(run() for _ in range(5))


def rates(device):
    """Floating-point operations per second of a product, and bytes read and written per second of a copy."""
    size = 4096 if device.torch_device.type == "cuda" else 1024
    a, b = torch.randn(size, size, device=device.torch_device), device.zeros(size, size)  # zeros multiply faster
    c, d = device.zeros(16 * size * size // 4), torch.randn(16 * size * size // 4, device=device.torch_device)
    return {"product": rate_of(device, lambda: torch.mm(a, a, out=b), 2 * size**3),
            "copy": rate_of(device, lambda: c.copy_(d), 8 * c.numel())}


def measure(device, model, matmul, steps, batches, peak, kernels):
    hidden, double_entity, double_relation = FLAGS.get(model, (HIDDEN, False, False))
    description = find_model(model)
    dims = description.dims(hidden, double_entity, double_relation)
    shapes = (ENTITIES, dims.entity), (RELATIONS, dims.relation), (RELATIONS, dims.projection)
    tables = [ResidentRows(_native.HostTable(rows, dim), device) for rows, dim in shapes if dim]
    for number, rows in enumerate(tables):
        rows.table.init_uniform(-0.1, 0.1, 1, number)
    config = StepConfig(model, dims.entity, dims.relation, 12.0, 0.1, 0.01, LossConfig(adversarial=True))
    step, count = DeviceStep(config, device, matmul), 0

    def run(steps):
        nonlocal count
        began = time.perf_counter()
        for _ in range(steps):
            batch = batches[count % len(batches)]
            for rows, ids in zip(tables, (batch.entities, batch.relations, batch.relations)):
                rows.announce(count, ids)
                rows.begin(count)
            step.run_rows(batch, *tables)
            for rows in tables:
                rows.end()
            count += 1
        enqueued = time.perf_counter() - began
        device.synchronize()
        return (time.perf_counter() - began) / steps, enqueued / steps

    run(WARM_UP)
    whole = [run(steps)[0] for _ in range(REPEATS)]
    host = [run(STEPS_ON_DEVICE)[1] for _ in range(10 * REPEATS)]
    entities = statistics.mean(len(batch.entities) for batch in batches)
    relations = statistics.mean(len(batch.relations) for batch in batches)
    pairs = statistics.mean(pairs_of(batch) for batch in batches)
    moved = 8 * (entities * dims.entity + relations * (dims.relation + (dims.projection or 0)))
    found = {"ms": 1e3 * statistics.median(whole), "host_ms": 1e3 * statistics.median(host),
             "floor_ms": 1e3 * max(operations(description, dims, pairs) / peak["product"], moved / peak["copy"])}
    return {**found, "kernels": kernel_microseconds(lambda: run(WARM_UP), WARM_UP)} if kernels else found


def pairs_of(batch):
    """Pairs of a chunk and a relation that a batch has."""
    return len(set(zip(np.arange(len(batch)) // batch.chunk_size, batch.relation)))


def operations(model, dims, pairs):
    """Floating-point operations of a step's products, at least: of models without any, 0. pairs: see pairs_of.

    Three of queries, negatives and slopes. Two vectors of a RESCAL edge meet its matrix, and each element of its
    gradient, which is of one term, is made twice: eight operations. TransR's three project its negatives and bring
    gradients back to them, for each pair, and make the gradients by its matrices, for each edge.
    """
    if model.name == "TransR":
        return 2 * (2 * pairs + BATCH) * NEGATIVES * dims.projection
    of_pairs = 3 * 2 * BATCH * NEGATIVES * dims.entity if model.similarity in ("dot", "l2") else 0
    return of_pairs + (12 * BATCH * dims.relation if model.name == "RESCAL" else 0)


def kernel_name(signature):
    """What a profiler calls a kernel, without namespaces and arguments; all products of libraries are one."""
    bare = signature.replace("(anonymous namespace)::", "")
    if bare.startswith("void "):
        bare = bare[len("void ") :]
    name = re.split("[<(]", bare)[0].split("::")[-1].strip()
    return "gemm" if "gemm" in name else name


def kernel_microseconds(work, calls):
    """Microseconds of each kernel of `work`, by its name, over `calls`: what work does that often."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    found = {}
    for event in profile.key_averages():
        name = kernel_name(event.key)
        found[name] = found.get(name, 0.0) + event.device_time_total / calls
    return {name: round(us, 2) for name, us in sorted(found.items(), key=lambda item: -item[1]) if us > 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True, help="write the results here")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu tries the benchmark itself (%(default)s)")
    parser.add_argument("--models", nargs="+", default=[name for name in model_names() if name != "TransE"])
    parser.add_argument("--matmul", choices=MATMULS, default="fp32")
    parser.add_argument("--steps", type=int, default=200, help="of a run (%(default)s)")
    parser.add_argument("--kernels", action="store_true", help="also time each kernel, on a GPU")
    options = parser.parse_args()
    devices, kernels = {"cpu": Device()}, options.kernels and options.device == "cuda"
    if options.device == "cuda":
        devices = {"graph": CudaDevice(0), "launches": CudaDevice(0, graphs=False)}
    peak = rates(next(iter(devices.values())))
    print(f"product {peak['product'] / 1e12:.2f} TFLOP/s, copy {peak['copy'] / 1e9:.0f} GB/s")
    batches = make_batches(np.random.default_rng(0), 16)
    report = {"matmul": options.matmul, "rates": peak, "models": {}}
    for model in options.models:
        report["models"][model] = {way: measure(device, model, options.matmul, options.steps, batches, peak, kernels)
                                   for way, device in devices.items()}
        for way, found in report["models"][model].items():
            print(f"{model:10s} {way:9s} {found['ms']:8.3f} ms a step, {found['host_ms']:7.3f} ms of the host, "
                  f"floor {found['floor_ms']:.3f} ms", flush=True)
            if kernels:
                print("           " + ", ".join(f"{name} {us}" for name, us in found["kernels"].items()), flush=True)
        result_file.write(options.json, report)


if __name__ == "__main__":
    main()
