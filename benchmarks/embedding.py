"""Tables of `Embedding`: making them, lookups of a million ids, and DLRM, compared with torch's own on the same
machine.

    python -m benchmarks.embedding --json FILE
    python -m benchmarks.embedding --json FILE --part lookup --scale 0.1      # in under a minute

`fill`: tables of a million rows are made, in turns with torch.nn.Embedding. embedding_fill_gb_s_per_core is bytes by
the seconds of processors, of the slowest kind of start values.

`lookup`: training steps of 1,048,576 ids of a power law on 10 million rows of 128, on a GPU behind a cache of 10 %,
with each optimizer, and torch's sparse embedding with all rows on that device. The floor is given, too: the
seconds in which this machine copies as many bytes as a step has to move. embedding_bytes_over_floor is a step's seconds
by those of the floor, with SGD.

`dlrm`: steps of the model of examples/dlrm.py on made-up data of Criteo's shape, all with SGD and the same DenseStep.
On the CPU compared with torch's embedding with sparse gradients, in turns. On a GPU behind a cache of 5 %, without a
cache (rows are read over the bus), and with torch's embedding on the CPU whose rows and gradients are copied through
pinned memory (the paper's "PyTorch"). With the seconds of a step come the host's seconds in its parts: `ahead` (the
lookups to come are announced), `lookup`, `dense` and `update`. The model alone is the most that any table could reach.

On a GPU the host runs ahead, as in training, and the seconds of a step are those between the ends of two steps in the
GPU's order of work.

`workers`: the same model with one table for several processes, a GPU each, or on the CPU two. dlrm_gpus_over_one is how
many times the samples of one GPU they take: where GPUs reach each other by owners of the rows ("direct"), else by p2f.

`keys`: raw 64-bit hashes in a table of a tenth as many rows as there are keys, and its log loss compared with the full
table's.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import dlrm as example  # noqa: E402

from dglke_frugal import Embedding, _native, optim  # noqa: E402
from dglke_frugal.embedding import CacheConfig, DenseStep, Lookahead, Normal, Uniform, Xavier  # noqa: E402

from . import result_file  # noqa: E402

DIM, RATE, CACHED = 32, 0.01, 0.05
LOOKUP_IDS, LOOKUP_ROWS, LOOKUP_DIM, LOOKUP_CACHED = 1 << 20, 10_000_000, 128, 0.1
OPTIMIZERS = {"sgd": optim.SGD, "rowwise_adagrad": optim.RowwiseAdagrad, "adagrad": optim.Adagrad, "adam": optim.Adam}
PUBLISHED = {  # by others, on their machines; numbers that nobody has run here
    "NVIDIA/recsys-examples, benchmark_results.json: a training step of 1.05 M ids, 434,000 distinct, 128 floats, 10 % "
    "cached, one H100": {"FBGEMM UVM cache, SGD": 4.8e-3, "FBGEMM UVM cache, Adam": 15e-3, "dynamicemb, SGD": 20.8e-3,
                         "dynamicemb, Adam": 24.3e-3},
    "NVIDIA/nv-embedding-cache, benchmarks.md: keys per second of a lookup, one GB200, 128 floats, 10 % cached":
        {"NVIDIA embedding cache": 432e6, "TorchRec": 186e6}}


def batches(count: int, size: int, scale: float, device: str = "cpu", seed: int = 1):
    """(values (B, 26), dense (B, 13), label (B,)) as tensors on the CPU; for a GPU the latter in pinned memory."""
    found = [(torch.from_numpy(values), dense, label)
             for values, dense, label in example.made_up(count * size, size, seed, scale)]
    return found if device == "cpu" else [(ids, dense.pin_memory(), label.pin_memory()) for ids, dense, label in found]


def power_law(count: int, rows: int, seed: int) -> torch.Tensor:
    """(count,) ids by Zipf's law with exponent 1, the most frequent first: of a million, 356,000 are distinct."""
    ranks = float(rows) ** np.random.default_rng(seed).random(count) - 1
    return torch.from_numpy(np.minimum(ranks.astype(np.int64), rows - 1))


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


class Marks:
    """Moments behind the steps of a device: of a GPU in its order of work, without waiting for it."""

    def __init__(self, device: str):
        self._on_gpu, self._marks = device != "cpu", []

    def mark(self) -> None:
        if self._on_gpu:
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        else:
            self._marks.append(time.perf_counter())

    def seconds(self) -> list:
        """Between each mark and the next."""
        if not self._on_gpu:
            return np.diff(self._marks).tolist()
        torch.cuda.synchronize()
        return [1e-3 * one.elapsed_time(next_one) for one, next_one in zip(self._marks, self._marks[1:])]


class Phases:
    """Seconds of a step, and of the host in each part of it."""

    PARTS = ("ahead", "lookup", "dense", "update")

    def __init__(self):
        self.of_host, self.of_steps = [], []

    def run(self, embedding, dense_step, data, device: str, warm: int) -> None:
        """Train on data; the first `warm` steps do not count."""
        if isinstance(embedding, Embedding):
            data = Lookahead(data, lambda batch: {embedding: batch[0]})
        clock, ends = time.perf_counter, Marks(device)
        marked = clock()
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
            if number >= 0:
                ends.mark()
        self.of_steps += ends.seconds()

    def medians(self) -> dict:
        """Seconds, by name: `step`, and the host's parts."""
        parts = dict(zip(self.PARTS, np.median(np.diff(self.of_host), axis=0).tolist()))
        return {"step": statistics.median(self.of_steps), **parts}


def fill(rows: int, rounds: int) -> dict:
    """Making a table of `rows` x 128, in turns with torch's."""
    kinds = {"normal": Normal(), "uniform": Uniform(-1, 1), "xavier": Xavier()}
    ways = {name: lambda init=init: Embedding(rows, LOOKUP_DIM, optim.SGD(RATE), init=init)
            for name, init in kinds.items()}
    ways["torch"] = lambda: torch.nn.Embedding(rows, LOOKUP_DIM)
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, make in ways.items():
            began = time.perf_counter(), time.process_time()
            made = make()
            times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
            del made
    seconds, processor = ({name: statistics.median(each[which] for each in found) for name, found in times.items()}
                          for which in (0, 1))
    gigabytes = rows * LOOKUP_DIM * 4 / 1e9
    result = {"embedding_fill_gb_s_per_core": gigabytes / max(processor[name] for name in kinds),
              "embedding_fill_torch_gb_s_per_core": gigabytes / processor["torch"],
              "embedding_fill_over_torch": seconds["torch"] / seconds["normal"]}
    for name in ways:
        result[f"embedding_fill_{name}_seconds"] = seconds[name]
        result[f"embedding_fill_{name}_processor_seconds"] = processor[name]
        print(f"fill {name}: {seconds[name]:.2f} s, {processor[name]:.2f} of processors", flush=True)
    return result


def bytes_per_second(device: str) -> dict:
    """What this machine copies: within the memory of `device`, counted once read and once written, and over the bus."""
    def rate(to, source):
        times = []
        for _ in range(7):
            synchronize(device)
            began = time.perf_counter()
            to.copy_(source, non_blocking=True)
            synchronize(device)
            times.append(time.perf_counter() - began)
        return source.numel() * 4 / statistics.median(times)

    memory = [torch.ones(1 << 26, device=device) for _ in range(2)]
    rates = {"memory": 2 * rate(*memory)}
    if device != "cpu":
        pinned = torch.ones(1 << 26, pin_memory=True)
        rates.update(to_device=rate(memory[0], pinned), to_host=rate(pinned, memory[0]))
    return rates


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def floor_of(ids: torch.Tensor, cached: int, state_floats: int, rates: dict) -> dict:
    """What a step has to move: ids are read, rows handed out, their gradients read, each distinct row with its state
    read and written, and over the bus the rows that no cache of the hottest has. seconds: of the slowest of the three,
    since bus and memory work side by side."""
    rows = torch.unique(ids)
    row, record = 4 * LOOKUP_DIM, 4 * (LOOKUP_DIM + state_floats)
    memory = len(ids) * (8 + 2 * row) + len(rows) * (row + 2 * record)
    bus = int((rows >= cached).sum()) * record if "to_host" in rates else 0
    seconds = memory / rates["memory"]
    if bus:
        seconds = max(seconds, bus / rates["to_device"], bus / rates["to_host"])
    return {"distinct": len(rows), "memory_bytes": memory, "bus_bytes_each_way": bus, "seconds": seconds}


def seconds_of_lookups(embedding, batches, gradient, device: str, warm: int) -> float:
    """Median seconds of a training step of a table alone."""
    ahead = Lookahead(batches, lambda ids: {embedding: ids}) if isinstance(embedding, Embedding) else batches
    ends = Marks(device)
    for number, ids in enumerate(ahead, 1 - warm):
        rows = embedding(ids)
        embedding.learn(rows, gradient)
        if number >= 0:
            ends.mark()
    return statistics.median(ends.seconds())


def lookup(scale: float, steps: int, warm: int, device: str) -> dict:
    """Lookups of a million ids and their updates."""
    rows, count = int(LOOKUP_ROWS * scale), int(LOOKUP_IDS * scale)
    batches = [power_law(count, rows, seed) for seed in range(steps + warm)]
    gradient = torch.randn(count, LOOKUP_DIM).to(device) * 1e-3
    rates, cached = bytes_per_second(device), int(rows * LOOKUP_CACHED)
    cache = None if device == "cpu" else CacheConfig(cache_ratio=LOOKUP_CACHED, hot_ids=range(cached))
    result = {"lookup_ids": count, "lookup_rows": rows, "published": PUBLISHED,
              **{f"copied_{name}_bytes_per_second": rate for name, rate in rates.items()}}
    for name, make in OPTIMIZERS.items():
        optimizer = make(RATE)
        floor = floor_of(batches[-1], cached, optimizer.native().state_floats(LOOKUP_DIM), rates)
        embedding = Embedding(rows, LOOKUP_DIM, optimizer, device=device, cache=cache, init=Uniform(-0.01, 0.01))
        seconds = seconds_of_lookups(embedding, batches, gradient, device, warm)
        embedding.close()
        del embedding
        gc.collect()
        result.update({f"lookup_{name}_seconds": seconds, f"lookup_{name}_floor": floor,
                       f"lookup_{name}_over_floor": seconds / floor["seconds"]})
        print(f"lookup {name}: {1e3 * seconds:.2f} ms, floor {1e3 * floor['seconds']:.2f}", flush=True)
    result["embedding_bytes_over_floor"] = result["lookup_sgd_over_floor"]
    theirs = TorchOnDevice(rows, device)
    on_device = batches if device == "cpu" else [ids.to(device) for ids in batches]
    result["lookup_torch_sparse_seconds"] = seconds_of_lookups(theirs, on_device, gradient, device, warm)
    print(f"lookup torch, sparse gradients: {1e3 * result['lookup_torch_sparse_seconds']:.2f} ms", flush=True)
    return result


class TorchOnDevice:
    """torch's embedding with sparse gradients and SGD, all rows on the device."""

    def __init__(self, rows: int, device: str):
        self._table = torch.nn.Embedding(rows, LOOKUP_DIM, sparse=True, device=device)
        self._optimizer = torch.optim.SGD(self._table.parameters(), RATE)

    def __call__(self, ids):
        return self._table(ids)

    def learn(self, rows, gradient):
        rows.backward(gradient)
        self._optimizer.step()
        self._optimizer.zero_grad()


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
    print(f"{name} {size}: {said(seconds)}", flush=True)
    result[f"{name}_seconds_{size}"] = seconds.pop("step")
    result.update({f"{name}_host_{what}_seconds_{size}": value for what, value in seconds.items()})


def said(medians: dict) -> str:
    """Of Phases, for people."""
    parts = ", ".join(f"{what} {1e3 * value:.2f}" for what, value in medians.items() if what != "step")
    return f"{1e3 * medians['step']:.2f} ms; of the host {parts}"


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
    data = {size: batches(steps + warm, size, scale, device) for size in sizes}
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


def worker(scale: float, sizes, steps: int, warm: int, flushes, device: str) -> dict:
    """In each of several processes: seconds of a step of the model with one table for all, by flush and size."""
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo" if device == "cpu" else "nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    hot, found = hottest(scale, CACHED), {}
    for size in sizes:
        data = batches(steps + warm, size, scale, device, seed=1 + rank)
        for flush in flushes:
            embedding = Embedding.distributed(rows_of(scale), DIM, optim.SGD(RATE), max_rows=size * 26, device=device,
                                              cache=CacheConfig(cache_ratio=CACHED, hot_ids=hot, flush=flush),
                                              init=Uniform(-0.01, 0.01))
            model = model_on(device)
            step = DenseStep(lambda rows, dense, label, model=model: example.loss_of(model(rows, dense), label) / ranks,
                             torch.optim.SGD(model.parameters(), RATE), group=dist.group.WORLD)
            phases = Phases()
            phases.run(embedding, step, data, device, warm)
            embedding.close()
            step.close()
            medians = phases.medians()
            found[f"{flush}_seconds_{size}"] = medians["step"]
            if rank == 0:
                print(f"{ranks} workers, {flush}, {size}: " + said(medians), flush=True)
    dist.destroy_process_group()
    return found


def workers(scale: float, sizes, steps: int, warm: int, device: str, one: dict) -> dict:
    """Several processes on one table. one: seconds of a step of one process, by size."""
    result = {}
    counts = [2] if device == "cpu" else [count for count in (2, 4, 8) if count <= torch.cuda.device_count()]
    flushes = ("p2f", "sync") if device == "cpu" else ("direct", "p2f", "sync")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "seconds"
            subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
                            str(count), "-m", "benchmarks.embedding", "--json", str(file), "--worker", *flushes,
                            "--scale", str(scale), "--sizes", *map(str, sizes), "--steps", str(steps), "--warm",
                            str(warm)], cwd=Path(__file__).resolve().parent.parent, check=True)
            result.update({f"workers_{count}_{name}": value for name, value in json.loads(file.read_text()).items()})
        over_one = {(size, flush): count * one[size] / result[f"workers_{count}_{flush}_seconds_{size}"]
                    for size in sizes if size in one for flush in flushes}
        result.update({f"dlrm_gpus_over_one_{count}_{size}_{flush}": ratio
                       for (size, flush), ratio in over_one.items()})
        if over_one:
            result[f"dlrm_gpus_over_one_{count}"] = min(ratio for (_, flush), ratio in over_one.items()
                                                        if flush == flushes[0])
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
    parser = result_file.parser(__doc__, required=True)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows and ids, 33.8 M rows of Criteo's")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm", type=int, default=12, help="steps before the ones that count")
    parser.add_argument("--rounds", type=int, default=3, help="turns that those take which are compared on the CPU")
    parser.add_argument("--key_samples", type=int, default=400_000)
    parser.add_argument("--part", nargs="+", choices=["fill", "lookup", "dlrm", "workers", "keys"],
                        default=["fill", "lookup", "dlrm", "workers", "keys"], help="what to measure; all if not given")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shared = args.scale, args.sizes, args.steps, args.warm
    if args.worker:
        found = worker(*shared, args.worker, device)
        if os.environ["RANK"] == "0":
            args.json.write_text(json.dumps(found))
        return
    result = {**result_file.read(args.json), "threads": _native.num_threads(), "torch_threads": torch.get_num_threads()}

    def keep(found):
        result.update(found)
        result_file.write(args.json, result)

    if "fill" in args.part:
        keep(fill(int(1_000_000 * args.scale), args.rounds))
    if "lookup" in args.part:
        keep(lookup(args.scale, args.steps, args.warm, device))
    if "dlrm" in args.part:
        keep(on_cpu(*shared, args.rounds) if device == "cpu" else on_gpu(*shared))
        gc.collect()
    if "workers" in args.part:
        leg = "embedding_cpu" if device == "cpu" else "embedding_gpu"
        one = {size: result[key] for size in args.sizes if (key := f"{leg}_seconds_{size}") in result}
        keep(workers(*shared, device, one))
    if "keys" in args.part:
        keep(by_key(args.key_samples, 2048, args.scale / 20, device))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
