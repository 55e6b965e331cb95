"""Two machines on one host: what they send, what they wait, and their speed over that of two workers of one process
group.

    python -m benchmarks.machines --json FILE [--entities 20000000] [--gbit 2.5 1] [--steps 60]
    python -m benchmarks.machines --gpu --json FILE

The second line is for two GPUs, one for each machine, over the loopback network.

TransE_l2, dim 400, batches of 1024 with 256 negatives, a generated graph whose triples are skewed as Freebase's.

Machines draw negatives from their own entities (--negatives local). The default takes 6 GB of memory and 2 GB of
temporary files.

[bytes_over_naive] (floats) and [half_bytes_over_naive]: bytes that a machine sends in a step, over those of a machine
that fetches and returns every row of its step that it does not hold, in floats, where triples and negatives are drawn
from the whole graph. [gate_share]: the part of a step's time that boundaries take, at the first of --gbit, between two
network namespaces (benchmarks/namespaces.py), which needs root; without it there is no such key.
[machines_over_workers]: triples per second of two machines, between namespaces without a limit, over those of
--num_proc 2, on the same cores. [model_over_measured_GGb]: the step time that `dglke_frugal plan --nnodes` expects,
over the one that was measured.

[gpu_over_one]: triples per second of two machines with a GPU each, whose tables lie in host memory, over one GPU alone
that has the tables in its memory. [gpu_model_over_measured]: as above, from what a step computes without waiting
(gpu_compute_seconds), the measured speed of the network and the time that blocks are worked on (gpu_work_seconds).
gpu_staged_step_seconds is a step of one such machine alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.data.synthetic import SyntheticGraph
from dglke_frugal.training.batches.edge_partition import partition_edges, row_owners
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.machines.network_plan import USABLE, NetworkPlan

from . import namespaces, result_file

MACHINES, BATCH, NEGATIVES, DIM, RELATIONS = 2, 1024, 256, 400, 14_824
ROW_BYTES = 4 * (DIM + 1)
COUNTED = 20  # steps whose rows are counted
FIRST = 10  # steps that are not timed
COLUMNS, PARTS = ("head.npy", "relation.npy", "tail.npy"), ("part-0.npy", "part-1.npy")  # files of a graph
PR_SET_THP_DISABLE = 41


def sampler(graph, worker: int, owners=None, part=None, machines: int = MACHINES) -> Sampler:
    return Sampler(*graph.train, graph.n_entities, graph.n_relations,
                   SamplerConfig(BATCH, NEGATIVES, 1, worker, machines, owners=owners, threads=1), part=part)


def naive_bytes(graph) -> float:
    """What a machine of the naive scheme sends in a step: it returns its rows, and answers for those of the others."""
    owners, relation_owners = (row_owners("hash", count, MACHINES) for count in (graph.n_entities, graph.n_relations))
    sources = [sampler(graph, worker) for worker in range(MACHINES)]  # a random part of the triples each
    foreign = 0
    for step in range(COUNTED):
        for worker, source in enumerate(sources):
            batch = source.batch(step)
            for held, ids in ((owners, batch.entities), (relation_owners, batch.relations)):
                foreign += int((held.owner(np.ascontiguousarray(ids)) != worker).sum())
    return 2 * ROW_BYTES * foreign / (COUNTED * MACHINES)


def write_graph(folder: Path, entities: int, triples: int) -> KnowledgeGraph:
    """Make the graph, and write it and the triples of each machine for the machines' processes, which would need far
    more memory to make them."""
    graph = SyntheticGraph(entities, RELATIONS, triples, skew=0.9).in_memory()
    files = dict(zip(COLUMNS, graph.train))
    files.update(zip(PARTS, partition_edges("hash", graph, MACHINES).parts))
    for name, array in files.items():
        np.save(folder / name, array)
    return graph


def read_graph(folder: Path, entities: int) -> KnowledgeGraph:
    """The graph that was written."""
    return KnowledgeGraph("generated", entities, RELATIONS, Triples(*(np.load(folder / name) for name in COLUMNS)))


def work(options: Dict[str, Any]) -> None:
    """One machine: trains on the graph and prints what it did as JSON. Rows that no step touches take no memory."""
    from dglke_frugal import _native
    from dglke_frugal.options import TrainConfig
    from dglke_frugal.training.run.loop import TrainingLoop
    from dglke_frugal.training.machines.group import Machines
    from dglke_frugal.training.machines.machine_tables import machine_tables
    from dglke_frugal.training.tables.start_values import StartValues
    from dglke_frugal.training.step.make_step import make_step
    from dglke_frugal.training.step.step_config import step_config

    fill = StartValues.fill  # entities stay zero: 33 GB of them would take more memory than the rows of these steps
    StartValues.fill = lambda self, table, *columns, **owned: None if owned else fill(self, table, *columns)
    _native.set_num_threads(options["threads"])
    count, folder = options.get("machines", MACHINES), Path(options["folder"])
    config = TrainConfig.from_flags({
        "model_name": "TransE_l2", "hidden_dim": DIM, "gamma": 10.0, "lr": 0.1, "regularization_coef": 1e-9, "seed": 1,
        "batch_size": BATCH, "neg_sample_size": NEGATIVES, "neg_adversarial_sampling": True, "num_proc": count,
        "row_dtype": options["row_dtype"], "partition": "hash", "parallel": "rows"})
    graph = read_graph(folder, options["entities"])
    parts = [np.load(folder / name) for name in PARTS] if count > 1 else [None]
    if not options.get("gpu"):  # else each row that a step touches would take the memory of a huge page
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    with Machines(60.0) as group:
        owners = row_owners("hash", graph.n_entities, count)
        sources = [sampler(graph, worker, owners, part, count) for worker, part in enumerate(parts)]
        tables = machine_tables(config, graph, owners, group.transport,
                                [None if each == group.machine else source for each, source in enumerate(sources)])
        steps = FIRST + options["steps"]
        for done in range(steps):  # so that no step is timed in which the system finds memory for a row
            for source in sources:
                ids = np.ascontiguousarray(source.batch(done).entities)
                tables.entity.embeddings[owners.local(ids[owners.owner(ids) == group.machine])] = 0
        if options.get("gpu"):
            from dglke_frugal.store.device.cuda_device import CudaDevice
            from dglke_frugal.training.step.staged_step import StagedStep

            step = StagedStep(step_config(config), CudaDevice(0))
        else:
            step = make_step(step_config(config), matmul="fp32")
            step.early_done = tables.early_done
        network, traffic = group.bytes_per_second() if count > 1 else 0.0, tables.boundaries.traffic
        loop = TrainingLoop(tables, sources[group.machine], step, 0, steps, 10)
        for done, _ in enumerate(loop, start=1):
            if done == FIRST:
                before = dict(loop.seconds), sum(traffic.bytes.values()), traffic.wait_seconds, traffic.work_seconds
        blocks = dict(traffic.bytes)
        tables.drain()
        spent = {name: seconds - before[0][name] for name, seconds in loop.seconds.items()}
        total = sum(spent.values())
        group.barrier()
        sent = {name: size / steps for name, size in blocks.items()}
        print(json.dumps({
            "bytes_per_step": (sum(blocks.values()) - before[1]) / options["steps"],
            "step_seconds": total / options["steps"],
            "gate_share": spent["gate"] / total,
            "wait_share": (traffic.wait_seconds - before[2]) / total,
            "work_seconds": (traffic.work_seconds - before[3]) / options["steps"],
            "compute_seconds": spent["step"] / options["steps"], "network": network,
            "background_bytes": sent.get("rest", 0) + sent.get("ahead", 0),
            "urgent_bytes": sent.get("urgent", 0) + sent.get("late", 0)}))
        tables.close()


def machines(options: Dict[str, Any], gbit: Optional[float] = None, apart: bool = False,
             cores: Sequence[Sequence[int]] = ()) -> List[Dict[str, Any]]:
    """What each machine says. gbit: of the network between namespaces; apart: namespaces even without a limit."""
    command = [sys.executable, "-m", "benchmarks.machines", "--worker", json.dumps(options)]
    if gbit or apart:
        with namespaces.two_namespaces(gbit) as names:
            outputs = namespaces.in_namespaces(names, command, cores)
    else:
        count = options.get("machines", MACHINES)
        commands = [[*namespaces.on_cores(cores[machine] if cores else None), *command] for machine in range(count)]
        variables = namespaces.on_loopback(count)
        outputs = namespaces.together(commands, [{**each, "CUDA_VISIBLE_DEVICES": str(machine)}
                                                 for machine, each in enumerate(variables)])
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def mean(reports: List[Dict[str, Any]], name: str) -> float:
    return statistics.mean(report[name] for report in reports)


def speeds(entities: int, steps: int, apart: bool) -> Dict[str, float]:
    """Steps per second of two workers of one process group and of two machines, by the command line, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*train_command(Path(folder), entities, steps), "--partition", "hash", "--negatives", "local"]
        cores = sorted(os.sched_getaffinity(0))
        own = [cores[machine::MACHINES] for machine in range(MACHINES)]
        environment = {"OMP_NUM_THREADS": str(len(own[0]))}
        os.environ.update(environment)
        workers = namespaces.together([[*command, "--num_proc", str(MACHINES), "--num_thread", str(len(own[0]))]],
                                      [dict(os.environ)])
        if apart:
            with namespaces.two_namespaces(None) as names:
                outputs = namespaces.in_namespaces(names, command, own)
        else:
            commands = [[*namespaces.on_cores(own[machine]), *command] for machine in range(MACHINES)]
            outputs = namespaces.together(commands, namespaces.on_loopback(MACHINES))
        return {"workers": _steps_per_second(workers[0]), "machines": _steps_per_second(outputs[0])}


def gpus(options: Dict[str, Any]) -> Dict[str, float]:
    """Two machines with a GPU each, one such machine alone, and one GPU alone by the command line."""
    reports = machines({**options, "gpu": True})
    alone = mean(machines({**options, "gpu": True, "machines": 1}), "step_seconds")
    plan = NetworkPlan(MACHINES, min(each["network"] for each in reports) / USABLE, mean(reports, "background_bytes"),
                       mean(reports, "urgent_bytes"), mean(reports, "compute_seconds"),
                       MACHINES * mean(reports, "compute_seconds"), MACHINES * BATCH, "triples", boundary_seconds=0.0,
                       overlapped=0.0, work_seconds=mean(reports, "work_seconds"))
    with tempfile.TemporaryDirectory() as folder:
        command = train_command(Path(folder), options["entities"], 20 * options["steps"])
        (output,) = namespaces.together([[*command, "--gpu", "0"]], [dict(os.environ)])
    measured = mean(reports, "step_seconds")
    one = _steps_per_second(output)
    return {"gpu_machines_triples_per_second": MACHINES * BATCH / measured, "gpu_one_triples_per_second": one * BATCH,
            "gpu_staged_step_seconds": alone, "gpu_step_seconds": measured,
            "gpu_gate_share": mean(reports, "gate_share"), "gpu_wait_share": mean(reports, "wait_share"),
            "gpu_compute_seconds": plan.compute_seconds, "gpu_work_seconds": plan.work_seconds,
            "gpu_background_bytes": plan.background_bytes, "gpu_urgent_bytes": plan.urgent_bytes,
            "gpu_network_bytes_per_second": plan.bytes_per_second * USABLE,
            "gpu_over_one": MACHINES / measured / one, "gpu_model_over_measured": plan.step_seconds / measured}


def train_command(folder: Path, entities: int, steps: int) -> List[str]:
    """Training on a generated graph that is written there."""
    from dglke_frugal.data.synthetic import write

    write(SyntheticGraph(entities, RELATIONS, 5 * entities, 1000, 1000, skew=0.9), folder, "Freebase")
    return [sys.executable, "-m", "dglke_frugal", "train", "--dataset", "Freebase", "--data_path", str(folder),
            "--model_name", "TransE_l2", "--hidden_dim", str(DIM), "--gamma", "10", "--lr", "0.1", "-rc", "1e-9",
            "-adv", "--batch_size", str(BATCH), "--neg_sample_size", str(NEGATIVES), "--seed", "1", "--max_step",
            str(steps), "--log_interval", str(steps // 4), "--no_save_emb", "--save_path", f"{folder}/ckpts"]


def _steps_per_second(output: str) -> float:
    """By the log lines of worker 0, without the first."""
    found = [int(steps) / float(seconds)
             for steps, seconds in re.findall(r"\[proc 0\]\[Train\] (\d+) steps take ([0-9.]+) seconds", output)]
    return statistics.median(found[1:])


def main() -> None:
    parser = result_file.parser(__doc__)
    parser.add_argument("--entities", type=int, default=20_000_000, help="(%(default)s)")
    parser.add_argument("--speed_entities", type=int, default=1_000_000, help="of the runs by workers (%(default)s)")
    parser.add_argument("--gbit", type=float, nargs="*", default=[2.5, 1.0], help="of the network (%(default)s)")
    parser.add_argument("--gpu", action="store_true", help="measure machines with a GPU each, and nothing else")
    parser.add_argument("--steps", type=int, default=60, help="of each measurement (%(default)s)")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    with tempfile.TemporaryDirectory() as folder:
        report(measure(options, Path(folder)), options.json)


def measure(options: argparse.Namespace, folder: Path) -> Dict[str, Any]:
    """folder: for the graph."""
    triples = 5 * options.entities
    cores = sorted(os.sched_getaffinity(0))
    own = [cores[machine::MACHINES] for machine in range(MACHINES)]
    given = {"entities": options.entities, "triples": triples, "steps": options.steps, "row_dtype": "fp32",
             "threads": max(1, len(own[0]))}
    result: Dict[str, Any] = {**given, "machines": MACHINES, "relations": RELATIONS, "dim": DIM, "batch": BATCH,
                              "negatives": NEGATIVES}
    graph = write_graph(folder, options.entities, triples)
    given["folder"] = str(folder)
    naive = 0.0 if options.gpu else naive_bytes(graph)
    del graph  # whose memory the machines need
    if options.gpu:
        result.update(gpus({**given, "threads": max(1, len(cores) // MACHINES)}))
        return result
    floats = machines(given, cores=own)
    fp16 = machines({**given, "row_dtype": "fp16"}, cores=own)
    result.update(naive_bytes_per_step=naive, bytes_per_step=mean(floats, "bytes_per_step"),
                  half_bytes_per_step=mean(fp16, "bytes_per_step"))
    result["bytes_over_naive"] = result["bytes_per_step"] / naive
    result["half_bytes_over_naive"] = result["half_bytes_per_step"] / naive
    apart = namespaces.can_make()
    if apart:
        for gbit in options.gbit:
            reports = machines(given, gbit, cores=own)
            for name in ("gate_share", "wait_share", "step_seconds", "compute_seconds"):
                result[f"{name}_{gbit:g}Gb"] = mean(reports, name)
            plan = NetworkPlan(MACHINES, gbit * 1e9 / 8, mean(reports, "background_bytes"),
                               mean(reports, "urgent_bytes"), mean(floats, "compute_seconds"),
                               MACHINES * mean(floats, "compute_seconds"), MACHINES * BATCH, "triples",
                               mean(floats, "gate_share") * mean(floats, "step_seconds"),
                               work_seconds=mean(floats, "work_seconds"))
            result[f"model_over_measured_{gbit:g}Gb"] = plan.step_seconds / mean(reports, "step_seconds")
        if options.gbit:
            result["gate_share"] = result[f"gate_share_{options.gbit[0]:g}Gb"]
    else:
        print("no network namespaces can be made here (they need root): there is no gate_share", file=sys.stderr)
    if options.speed_entities:
        found = speeds(options.speed_entities, max(40, options.steps), apart)
        result.update({f"{name}_steps_per_second": speed for name, speed in found.items()},
                      machines_over_workers=found["machines"] / found["workers"])
    return result


def report(result: Dict[str, Any], file: Optional[Path]) -> None:
    print(json.dumps(result, indent=2))
    result_file.write(file, result)


if __name__ == "__main__":
    main()
