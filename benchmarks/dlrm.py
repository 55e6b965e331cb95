"""DLRM with a table in host memory, against torch's own embeddings on the same machine in the same run.

    python -m benchmarks.dlrm --json FILE

On a GPU: steps of the model of examples/dlrm.py behind a cache of 5 %, without a cache (rows read over the bus), and
with torch.nn.Embedding(sparse=True) on the CPU whose rows and gradients are copied (the paper's "PyTorch"). On the CPU:
the same model beside the same torch.nn.Embedding, and both tables alone. All with SGD, on made-up data of Criteo's
shape. By key: raw 64-bit hashes in a table of a tenth as many rows as there are keys, and its log loss beside the full
table's.
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
from dglke_frugal.embedding import CacheConfig, Lookahead, Uniform  # noqa: E402

from . import result_file  # noqa: E402

DIM, RATE, CACHED = 32, 0.01, 0.05


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


class CopiedEmbedding(torch.nn.Module):
    """torch's table on the CPU; rows go to the device, and gradients come back, by copies."""

    def __init__(self, weight: torch.Tensor, device: str):
        super().__init__()
        self.table = [torch.nn.Embedding.from_pretrained(weight, freeze=False, sparse=True)]  # hidden from model.to
        self.optimizer = torch.optim.SGD(self.table[0].parameters(), RATE)
        self.device = device

    def forward(self, ids):
        return self.table[0](ids).to(self.device)


class NoEmbedding(torch.nn.Module):
    """Rows that are there already, and a gradient that nobody wants: what the model costs alone."""

    def __init__(self, device: str):
        super().__init__()
        self.device, self.rows = device, {}
        self.optimizer = torch.optim.SGD([torch.zeros(1)], RATE)

    def forward(self, ids):
        if ids.shape not in self.rows:
            self.rows[ids.shape] = torch.zeros(*ids.shape, DIM, device=self.device, requires_grad=True)
        return self.rows[ids.shape]


def seconds_of_step(model, data, device: str, warm: int) -> float:
    """Median seconds of a training step, data on its way to the device included; those before `warm` do not count."""
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    embedding = model.embedding
    ours = isinstance(embedding, Embedding)
    times, began = [], time.perf_counter()
    for ids, dense, label in Lookahead(data, lambda batch: {embedding: batch[0]}) if ours else data:
        logits = model(ids, dense.to(device))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, label.to(device))
        optimizer.zero_grad()
        if not ours:
            embedding.optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not ours:
            embedding.optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
        began = time.perf_counter()
    return statistics.median(times[warm:])


def seconds_of_table(embedding, data, warm: int) -> float:
    """Median seconds of a lookup with its update, on the CPU, without a model."""
    gradient = torch.randn(*data[0][0].shape, DIM)
    times = []
    for ids, _, _ in data:
        began = time.perf_counter()
        values = embedding(ids)
        values.backward(gradient)
        if not isinstance(embedding, Embedding):
            embedding.optimizer.step()
            embedding.optimizer.zero_grad()
        times.append(time.perf_counter() - began)
    return statistics.median(times[warm:])


def table(rows: int, device: str, cache=None) -> Embedding:
    return Embedding(rows, DIM, optim.SGD(RATE), device=device, cache=cache, init=Uniform(-0.01, 0.01))


def model_of(embedding, device: str):
    torch.manual_seed(0)
    return example.DLRM(embedding, 13, 26, DIM).to(device)


def compare(scale: float, sizes, steps: int, warm: int, device: str) -> dict:
    """Seconds of a step, by batch size and by what holds the rows; and the ratios that the goals are about."""
    rows = int(np.maximum(3, np.array(example.CRITEO) * scale).astype(np.int64).sum())
    ways = {}
    plain = table(rows, "cpu")
    weight = plain.weight.contiguous().clone()
    if device == "cpu":
        ways["embedding_cpu"] = lambda: plain
        ways["torch_cpu"] = lambda: CopiedEmbedding(weight, "cpu")
    else:
        hot = hottest(scale, CACHED)
        ways["embedding_gpu"] = lambda: table(rows, device, CacheConfig(cache_ratio=CACHED, hot_ids=hot))
        ways["embedding_gpu_uva_without_cache"] = lambda: table(rows, device, CacheConfig(cache_ratio=0.0))
        ways["torch_gpu_by_copies"] = lambda: CopiedEmbedding(weight, device)
    ways["model_alone_" + device] = lambda: NoEmbedding(device)
    result = {}
    for size in sizes:
        data = batches(steps + warm, size, scale)
        result[f"distinct_rows_{size}"] = int(statistics.median(len(torch.unique(ids)) for ids, _, _ in data))
        for name, make in ways.items():
            embedding = make()
            result[f"{name}_seconds_{size}"] = seconds_of_step(model_of(embedding, device), data, device, warm)
            if name == "embedding_gpu":
                counted = embedding.statistics()["ranks"][0]
                result[f"hit_share_{size}"] = counted["cache_reads"] / (counted["cache_reads"] + counted["host_reads"])
            if isinstance(embedding, Embedding) and embedding is not plain:
                embedding.close()
            print(name, size, result[f"{name}_seconds_{size}"], flush=True)
            del embedding
            gc.collect()
        if device == "cpu":
            for name, make in ways.items():
                result[f"{name}_alone_seconds_{size}"] = seconds_of_table(make(), data, warm)
            result[f"dlrm_over_torch_cpu_{size}"] = (result[f"torch_cpu_seconds_{size}"]
                                                     / result[f"embedding_cpu_seconds_{size}"])
            result[f"table_over_torch_cpu_{size}"] = (result[f"torch_cpu_alone_seconds_{size}"]
                                                      / result[f"embedding_cpu_alone_seconds_{size}"])
        else:
            ours = result[f"embedding_gpu_seconds_{size}"]
            result[f"dlrm_over_torch_gpu_{size}"] = result[f"torch_gpu_by_copies_seconds_{size}"] / ours
            result[f"dlrm_over_uva_{size}"] = result[f"embedding_gpu_uva_without_cache_seconds_{size}"] / ours
    kind = "cpu" if device == "cpu" else "gpu"
    result[f"dlrm_over_torch_{kind}"] = min(result[f"dlrm_over_torch_{kind}_{size}"] for size in sizes)
    return {f"rows_{kind}": rows, **result}


def by_key(samples: int, size: int, scale: float, device: str) -> dict:
    """Rows by key against a row for every value: log loss of the last tenth of the samples, and lookups per second."""
    data = [(values, torch.from_numpy(example.mixed(values.numpy())), dense, label)
            for values, dense, label in batches(samples // size, size, scale)]
    last = len(data) // 10
    distinct = len(np.unique(np.concatenate([keys.numpy().ravel() for _, keys, _, _ in data])))
    rows = int(np.maximum(3, np.array(example.CRITEO) * scale).astype(np.int64).sum())
    settings = {"embedding_dim": DIM, "optimizer": optim.RowwiseAdagrad(0.02), "device": device,
                "init": Uniform(-0.05, 0.05)}
    tables = {"full_table": Embedding(rows, **settings),
              "by_key": Embedding(keys="int64", capacity=max(1, distinct // 10), policy="lfu", **settings)}
    result = {"keys": distinct, "key_capacity": distinct // 10}
    for number, (name, embedding) in enumerate(tables.items()):
        model = model_of(embedding, device)
        chosen = [(each[number], *each[2:]) for each in data]
        example.train(model, chosen[:-last], device, 0.05)
        result.update({f"{name}_{what}": value
                       for what, value in example.evaluate(model, chosen[-last:], device).items()})
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
    parser.add_argument("--key_samples", type=int, default=400_000)
    args = parser.parse_args()
    result = {"threads": _native.num_threads(), "torch_threads": torch.get_num_threads()}
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        result.update(compare(args.scale, args.sizes, args.steps, args.warm, device))
        gc.collect()
    result.update(by_key(args.key_samples, 2048, args.scale / 20, devices[-1]))
    result_file.write(args.json, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
