"""DLRM with a table in host memory, against torch's own embeddings on the same machine in the same run.

    python -m benchmarks.dlrm --json FILE
    python -m benchmarks.dlrm --json FILE --part gpu --scale 0.1      # in under a minute

On a GPU: steps of the model of examples/dlrm.py behind a cache of 5 %, without a cache (rows read over the bus), and
with torch's embedding on the CPU whose rows and gradients are copied through pinned memory (the paper's "PyTorch"). On
the CPU: the same model beside torch's embedding with sparse gradients, in turns, and both tables alone; torch's step
over the model alone is the most that any table could reach there. All with SGD and the same DenseStep (on a GPU a CUDA
graph), on made-up data of Criteo's shape. Beside the seconds of a step stand those of the host in its parts: `ahead`
(the lookups to come are announced), `lookup`, `dense`, `update`, and `wait` for the GPU, which it does every tenth step.
By key: raw 64-bit hashes in a table of a tenth as many rows as there are keys, and its log loss beside the full table's.
"""
from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import dlrm as example  # noqa: E402

from dglke_frugal import Embedding, _native, optim  # noqa: E402
from dglke_frugal.embedding import CacheConfig, DenseStep, Lookahead, Uniform  # noqa: E402

from . import result_file  # noqa: E402

DIM, RATE, CACHED = 32, 0.01, 0.05
CHUNK = 10  # steps on a GPU between two moments when the host waits for it


def batches(count: int, size: int, scale: float):
    """(values (B, 26), dense (B, 13), label (B,)) as tensors on the CPU."""
    return [(torch.from_numpy(values), dense, label)
            for values, dense, label in example.made_up(count * size, size, seed=1, scale=scale)]


def hottest(scale: float, share: float) -> np.ndarray:
    """Ids by their expected use, most used first: as many as a cache of this share holds."""
    counts = np.maximum(3, np.array(example.CRITEO) * scale).astype(np.int64)
    first, wanted = np.cumsum(counts) - counts, int(counts.sum() * share)
    power = 1 - example.EXPONENT
    ids, uses = [], []
    for begin, count in zip(first, counts):
        ranks = np.arange(min(count, wanted)) + 1.0
        ids.append(begin + np.arange(len(ranks)))
        uses.append(ranks**-example.EXPONENT / ((count**power - 1) / power))
    ids, uses = np.concatenate(ids), np.concatenate(uses)
    top = np.argpartition(-uses, min(wanted, len(uses) - 1))[:wanted]
    return ids[top[np.argsort(-uses[top], kind="stable")]]


class TorchEmbedding:
    """torch's table on the CPU, with sparse gradients and torch's SGD.

    For a model on a GPU rows are gathered into pinned memory and copied, and their gradients come back the same way.
    """

    def __init__(self, weight: torch.Tensor, device: str):
        self.weight = torch.nn.Parameter(weight)
        self.optimizer = torch.optim.SGD([self.weight], RATE)
        self.device, self.pinned = device, None

    def __call__(self, ids):
        if self.device == "cpu":
            return torch.nn.functional.embedding(ids, self.weight, sparse=True)
        if self.pinned is None or self.pinned.shape[:-1] != ids.shape:
            self.pinned = torch.empty(*ids.shape, DIM, pin_memory=True)
        with torch.no_grad():
            torch.index_select(self.weight, 0, ids.view(-1), out=self.pinned.view(-1, DIM))
        self.ids = ids
        return self.pinned.to(self.device, non_blocking=True)

    def learn(self, rows, gradient):
        if self.device == "cpu":
            rows.backward(gradient)
        else:
            self.pinned.copy_(gradient, non_blocking=True)
            torch.cuda.current_stream().synchronize()
            self.weight.grad = torch.sparse_coo_tensor(self.ids.view(1, -1), self.pinned.view(-1, DIM),
                                                       self.weight.shape, check_invariants=False)
        self.optimizer.step()
        self.optimizer.zero_grad()


class NoEmbedding:
    """Rows that are there already, and a gradient that nobody wants: what the model costs alone."""

    def __init__(self, device: str):
        self.device, self.rows = device, {}

    def __call__(self, ids):
        if ids.shape not in self.rows:
            self.rows[ids.shape] = torch.zeros(*ids.shape, DIM, device=self.device)
        return self.rows[ids.shape]

    def learn(self, rows, gradient):
        pass


class Phases:
    """Seconds of a step, and of the host in each part of it.

    On a GPU the host runs ahead, as in training, and waits for the device every CHUNK steps: a step's seconds are a
    chunk's by its steps, and `wait` is its share of the waiting. On the CPU each step counts by itself.
    """

    PARTS = ("ahead", "lookup", "dense", "update")

    def __init__(self):
        self.of_host, self.of_steps, self.waits = [], [], []

    def run(self, embedding, dense_step, data, device: str, warm: int) -> None:
        """Train on data; the first `warm` steps do not count."""
        if isinstance(embedding, Embedding):
            data = Lookahead(data, lambda batch: {embedding: batch[0]})
        chunk = 1 if device == "cpu" else CHUNK
        clock = time.perf_counter
        began = marked = clock()
        for number, (ids, dense, label) in enumerate(data, 1 - warm):
            marks = [marked, clock()]
            rows = embedding(ids)
            marks.append(clock())
            gradient = dense_step(rows, dense, label)
            marks.append(clock())
            embedding.learn(rows, gradient)
            marks.append(marked := clock())
            if number > 0:
                self.of_host.append(marks)
            if number >= 0 and number % chunk == 0:
                if device != "cpu":
                    torch.cuda.synchronize()
                waited, marked = marked, clock()
                if number > 0:
                    self.of_steps.append((marked - began) / chunk)
                    self.waits.append((marked - waited) / chunk)
                began = marked

    def medians(self) -> dict:
        """Seconds, by name: `step`, the host's parts, and `wait`."""
        parts = dict(zip(self.PARTS, np.median(np.diff(self.of_host), axis=0).tolist()))
        return {"step": statistics.median(self.of_steps), **parts, "wait": statistics.median(self.waits)}


def seconds_of_table(embedding, data, warm: int) -> float:
    """Median seconds of a lookup with its update, on the CPU, without a model."""
    gradient = torch.randn(*data[0][0].shape, DIM)
    times = []
    for ids, _, _ in data:
        began = time.perf_counter()
        embedding.learn(embedding(ids), gradient)
        times.append(time.perf_counter() - began)
    return statistics.median(times[warm:])


def table(rows: int, device: str, cache=None) -> Embedding:
    return Embedding(rows, DIM, optim.SGD(RATE), device=device, cache=cache, init=Uniform(-0.01, 0.01))


def model_on(device: str):
    torch.manual_seed(0)
    return example.DLRM(13, 26, DIM).to(device)


def dense_step_on(device: str) -> DenseStep:
    """The same for all that are compared."""
    model = model_on(device)
    return DenseStep(lambda rows, dense, label: example.loss_of(model(rows, dense), label),
                     torch.optim.SGD(model.parameters(), RATE))


def note(result: dict, name: str, size: int, phases: Phases) -> None:
    """Write down, and print, the seconds of a step and where its host spends them."""
    seconds = phases.medians()
    step = result[f"{name}_seconds_{size}"] = seconds.pop("step")
    result.update({f"{name}_host_{what}_seconds_{size}": value for what, value in seconds.items()})
    parts = ", ".join(f"{what} {1e3 * value:.2f}" for what, value in seconds.items())
    print(f"{name} {size}: {1e3 * step:.2f} ms; of the host {parts}", flush=True)


def rows_of(scale: float) -> int:
    return int(np.maximum(3, np.array(example.CRITEO) * scale).astype(np.int64).sum())


def on_cpu(scale: float, sizes, steps: int, warm: int, rounds: int) -> dict:
    """The model on the CPU with our table and with torch's, in turns, and both tables alone."""
    ours = table(rows_of(scale), "cpu")
    ways = {"embedding_cpu": ours, "torch_cpu": TorchEmbedding(ours.weight.contiguous().clone(), "cpu"),
            "model_alone_cpu": NoEmbedding("cpu")}
    result = {"rows_cpu": ours.num_embeddings}
    for size in sizes:
        data = batches(steps + warm, size, scale)
        result[f"distinct_rows_{size}"] = int(statistics.median(len(torch.unique(ids)) for ids, _, _ in data))
        phases, dense = {name: Phases() for name in ways}, {name: dense_step_on("cpu") for name in ways}
        for _ in range(rounds):
            for name, embedding in ways.items():
                phases[name].run(embedding, dense[name], data, "cpu", warm)
        for name in ways:
            note(result, name, size, phases[name])
        alone = {name: seconds_of_table(ways[name], data, warm) for name in ("embedding_cpu", "torch_cpu")}
        result.update({f"{name}_alone_seconds_{size}": seconds for name, seconds in alone.items()})
        theirs = result[f"torch_cpu_seconds_{size}"]
        result[f"dlrm_over_torch_cpu_{size}"] = theirs / result[f"embedding_cpu_seconds_{size}"]
        result[f"dlrm_over_torch_cpu_bound_{size}"] = theirs / result[f"model_alone_cpu_seconds_{size}"]
        result[f"table_over_torch_cpu_{size}"] = alone["torch_cpu"] / alone["embedding_cpu"]
    for name in ("dlrm_over_torch_cpu", "dlrm_over_torch_cpu_bound"):
        result[name] = min(result[f"{name}_{size}"] for size in sizes)
    return result


def on_gpu(scale: float, sizes, steps: int, warm: int, device: str = "cuda") -> dict:
    """The model on a GPU with our table behind a cache and without one, and with torch's table on the CPU."""
    rows = rows_of(scale)
    hot = hottest(scale, CACHED)
    ways = {"embedding_gpu": lambda: table(rows, device, CacheConfig(cache_ratio=CACHED, hot_ids=hot)),
            "embedding_gpu_uva_without_cache": lambda: table(rows, device, CacheConfig(cache_ratio=0.0)),
            "torch_gpu_by_copies": lambda: TorchEmbedding(torch.empty(rows, DIM).uniform_(-0.01, 0.01), device),
            "model_alone_cuda": lambda: NoEmbedding(device)}
    result = {"rows_gpu": rows}
    data = {size: [(ids, dense.pin_memory(), label.pin_memory()) if device != "cpu" else (ids, dense, label)
                   for ids, dense, label in batches(steps + warm, size, scale)] for size in sizes}
    for name, make in ways.items():
        embedding = make()
        for size in sizes:
            phases = Phases()
            phases.run(embedding, dense_step_on(device), data[size], device, warm)
            note(result, name, size, phases)
            if isinstance(embedding, Embedding):
                engine = embedding.statistics()
                hits, misses = (engine["ranks"][0][what] for what in ("cache_reads", "host_reads"))
                result[f"{name}_hit_share_{size}"] = hits / (hits + misses)
                planning = 1e-9 * engine["planning_nanoseconds"] / engine["planned_steps"]
                result[f"{name}_planning_seconds_{size}"] = planning
                embedding.close()  # the next size begins with an empty cache
        del embedding
        gc.collect()
    for size in sizes:
        ours = result[f"embedding_gpu_seconds_{size}"]
        result[f"dlrm_over_torch_gpu_{size}"] = result[f"torch_gpu_by_copies_seconds_{size}"] / ours
        result[f"dlrm_over_uva_{size}"] = result[f"embedding_gpu_uva_without_cache_seconds_{size}"] / ours
    result["dlrm_over_torch_gpu"] = min(result[f"dlrm_over_torch_gpu_{size}"] for size in sizes)
    return result


def by_key(samples: int, size: int, scale: float, device: str) -> dict:
    """Rows by key against a row for every value: log loss of the last tenth of the samples, and lookups per second."""
    data = [(values, torch.from_numpy(example.mixed(values.numpy())), dense, label)
            for values, dense, label in batches(samples // size, size, scale)]
    last = len(data) // 10
    distinct = len(np.unique(np.concatenate([keys.numpy().ravel() for _, keys, _, _ in data])))
    rows = rows_of(scale)
    settings = {"embedding_dim": DIM, "optimizer": optim.RowwiseAdagrad(0.02), "device": device,
                "init": Uniform(-0.05, 0.05)}
    tables = {"full_table": Embedding(rows, **settings),
              "by_key": Embedding(keys="int64", capacity=max(1, distinct // 10), policy="lfu", **settings)}
    result = {"keys": distinct, "key_capacity": distinct // 10}
    for number, (name, embedding) in enumerate(tables.items()):
        model = model_on(device)
        chosen = [(each[number], *each[2:]) for each in data]
        example.train(model, embedding, chosen[:-last], 0.05)
        result.update({f"{name}_{what}": value
                       for what, value in example.evaluate(model, embedding, chosen[-last:]).items()})
        print(name, result[f"{name}_log_loss"], result[f"{name}_auc"], flush=True)
    began = time.perf_counter()
    for _, keys, _, _ in data[:last]:  # rows and updates, without a model
        tables["by_key"](keys).sum().backward()
    if device != "cpu":
        torch.cuda.synchronize()
    result["key_lookups_per_second"] = last * size * 26 / (time.perf_counter() - began)
    return result


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True)
    parser.add_argument("--scale", type=float, default=1.0, help="of Criteo's 33.8 M rows")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm", type=int, default=12, help="steps before those that count")
    parser.add_argument("--rounds", type=int, default=2, help="turns that those on the CPU take")
    parser.add_argument("--key_samples", type=int, default=400_000)
    parser.add_argument("--part", nargs="+", choices=["cpu", "gpu", "keys"],
                        help="what to measure; all that the machine can if not given")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parts = args.part or ["cpu", *(["gpu"] if device == "cuda" else []), "keys"]
    if "gpu" in parts and device == "cpu":
        parser.error("--part gpu needs a CUDA device that PyTorch sees; leave it out here")
    result = {"threads": _native.num_threads(), "torch_threads": torch.get_num_threads()}
    if "cpu" in parts:
        result.update(on_cpu(args.scale, args.sizes, args.steps, args.warm, args.rounds))
        gc.collect()
    if "gpu" in parts:
        result.update(on_gpu(args.scale, args.sizes, args.steps, args.warm))
        gc.collect()
    if "keys" in parts:
        result.update(by_key(args.key_samples, 2048, args.scale / 20, device))
    result_file.write(args.json, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
