"""The GPU's part of benchmarks/eval.py: the same test on a GPU, and what of its ranks differs from the CPU's."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Dict

import numpy as np

from dglke_frugal.evaluation import SIDES, EmbeddingModel, Evaluation, KnownTriples, evaluate
from dglke_frugal.evaluation.device import on_device, torch_device
from dglke_frugal.models import TorchModel, find_model, model_names

OWN = f"{__name__}:Distance"
MATRIX_DIM = 200  # of the models with a matrix per relation


class Distance(TorchModel):
    """TransE_l2 as a user writes it."""

    def score(self, head, relation, tail):
        return self.gamma - (head + relation - tail).norm(dim=-1)


def random_model(name: str, graph, hidden_dim: int, gamma: float) -> EmbeddingModel:
    """Tables of random rows, uniform as training starts from, but wide enough to tell entities apart."""
    if name in ("RESCAL", "TransR"):
        hidden_dim = MATRIX_DIM
    scorer = find_model(name)
    double = name == "RotatE"
    dims = scorer.dims(hidden_dim // 2 if double else hidden_dim, double, False)
    rng = np.random.default_rng(0)
    bound = (gamma + 2) / hidden_dim

    def rows(count, dim):
        return (2 * bound * rng.random((count, dim), np.float32) - np.float32(bound)).astype(np.float32)

    projection = rows(graph.n_relations, dims.projection) if dims.projection else None
    hidden = hidden_dim // 2 if double else hidden_dim
    return EmbeddingModel(name, gamma, hidden, rows(graph.n_entities, dims.entity),
                          rows(graph.n_relations, dims.relation), projection)


def seconds_of(model, graph, gpu: int, repeat: int, on_host: bool):
    """Least seconds of several, from the tables in host memory to the metrics, index and upload included, and the
    evaluation."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        there = replace(model, device=torch_device(gpu)) if on_host else on_device(model, gpu)
        known = KnownTriples([tuple(split) for split in graph.splits.values()])
        evaluation = evaluate(there, tuple(graph.test), known)
        evaluation.metrics()
        seconds.append(time.perf_counter() - began)
    return min(seconds), evaluation


def differences(expected: Evaluation, found: Evaluation, every: int = 1) -> Dict:
    """How many of the ranks of `expected`, which are those of every so many triples of `found`, differ."""
    gaps = np.concatenate([found.ranks(side)[::every] - expected.ranks(side) for side in SIDES])
    return {"ranks_compared": len(gaps),
            "ranks_that_differ": int((gaps != 0).sum()),
            "largest_rank_gap": float(np.abs(gaps).max(initial=0.0))}


def gpu_leg(model, graph, on_cpu: Evaluation, options) -> Dict:
    """Seconds of an evaluation on the GPU and on the CPU; then all models with random tables. Nulls without a GPU."""
    if options.gpu < 0:
        return {"eval_seconds_gpu": None, "eval_seconds_gpu_host_table": None}
    result = {}
    for key, on_host in (("eval_seconds_gpu", False), ("eval_seconds_gpu_host_table", True)):
        result[key], evaluation = seconds_of(model, graph, options.gpu, options.repeat, on_host)
        result[f"{key}_ranks"] = differences(on_cpu, evaluation)
    result["gpu_models"] = {}
    some = tuple(column[:: options.compare_every] for column in graph.test)
    for name in (*sorted(set(model_names()) - {"TransE"}), OWN):
        one = random_model(name, graph, options.hidden_dim, options.gamma)
        there, evaluation = seconds_of(one, graph, options.gpu, 2, on_host=False)
        began = time.perf_counter()
        cpu = evaluate(one, some, KnownTriples([tuple(split) for split in graph.splits.values()]))
        result["gpu_models"][name.rpartition(":")[2]] = {"dim": one.entity.shape[1], "seconds": there,
                                                         "cpu_seconds_of_some": time.perf_counter() - began,
                                                         **differences(cpu, evaluation, options.compare_every)}
        print(name, result["gpu_models"][name.rpartition(":")[2]], flush=True)
    return result
