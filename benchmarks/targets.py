"""What the project set out to reach, by the names under which benchmarks report it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple


class Target(NamedTuple):
    """A bar for one figure."""

    what: str
    bar: float
    at_most: bool = False

    def reached(self, value: float) -> bool:
        """Whether the figure is on the right side of the bar."""
        return value <= self.bar if self.at_most else value >= self.bar

    @property
    def text(self) -> str:
        """The bar as a table shows it."""
        return f"{'at most' if self.at_most else 'at least'} {self.bar:,.6g}"


OF_TARGETS = "speed_tf32"  # a part of a result that they are of, too: a softmax's figures by precision
TARGETS: Dict[str, Target] = {
    "frugal_over_vanilla_cpu": Target("steps/s over vanilla's, CPU, same threads", 3),
    "frugal_over_vanilla_gpu": Target("steps/s over vanilla --gpu 0, FB15k", 10),
    "frugal_over_vanilla_mix": Target("steps/s over vanilla --mix_cpu_gpu, 5 % cached", 10),
    "default_over_vanilla_gpu": Target("steps/s over vanilla --gpu 0, FB15k, both with their defaults", 40),
    "step_us_on_device": Target("a step of FB15k with the table on the device, us", 65, at_most=True),
    "step_us_fb15k_5": Target("the same behind a cache of 5 %, us", 105, at_most=True),
    "step_us_20m_5": Target("a step of 20 M rows behind a cache of 5 %, us", 140, at_most=True),
    "step_us_20m_5_fp16": Target("the same with rows in halves, us", 100, at_most=True),
    "device_step_over_compiled_torch": Target("steps/s on the device over compiled PyTorch with a graph", 2.8),
    "two_gpus_over_one_fb15k": Target("triples/s of two GPUs over the best of one, FB15k", 1.4),
    "two_gpus_over_one_20m": Target("the same, 20 M rows behind caches of 5 %", 1.7),
    "two_gpus_over_one_20m_no_peer": Target("the same without peer access", 1.5),
    "frugal_over_vanilla_two_gpus": Target("triples/s over vanilla's, two GPUs each, FB15k", 25),
    "softmax_over_torch_14k": Target("1vsAll step over compiled PyTorch's, 14,541 x 2000", 2),
    "softmax_over_torch_123k": Target("the same, 123,182 x 2000", 2.5),
    "softmax_over_torch_2500k": Target("the same, 2,500,604 x 100", 4),
    "stall_share": Target("share of the time spent waiting for rows (on one GPU nothing is flushed)", 0.01, at_most=True),
    "eval_seconds": Target("full filtered test of FB15k on the CPU, two cores' bar, s", 40, at_most=True),
    "eval_seconds_gpu": Target("the same on a GPU, s", 2, at_most=True),
    "frugal_over_vanilla_eval": Target("the same, over vanilla's time", 6),
    "dlrm_over_torch_gpu": Target("DLRM steps/s over torch.nn.Embedding on the CPU with copies", 5),
    "dlrm_over_torch_cpu": Target("DLRM steps/s over torch.nn.Embedding(sparse=True), CPU", 1.5),
    "uva_over_copy_dim400": Target("gather from host memory over the pinned copy rate", 0.9),
    "queue_over_best_peer": Target("operations/s of the two-level queue over its best peer's", 3),
    "stall_sync_over_p2f_fb15k": Target("simulation, compute is a sleep: waiting with sync flushes over P²F's, FB15k", 30),
    "stall_sync_over_p2f_freebase": Target("the same simulation, 86 M rows", 30),
    "engine_bytes_86m": Target("memory of the engine for 86 M rows, bytes", 1e9, at_most=True),
    "triples_per_s": Target("triples loaded from text each second", 5e6),
    "peak_over_arrays": Target("peak memory of loading over its arrays", 1.3, at_most=True),
    "peak_over_plan": Target("peak memory of a large generated graph over the plan", 1.1, at_most=True),
    "compat_share": Target("share of vanilla's step that running it today costs", 0.03, at_most=True),
    "import_seconds": Target("import of the package, s", 0.5, at_most=True),
    "first_step_seconds": Target("from the command to the first step of FB15k, CPU, s", 5, at_most=True),
}


def rows(results: Mapping[str, Mapping[str, Any]]) -> List[List[Any]]:
    """(figure, key, value, bar, reached, file) of each target that a result has. results: by file name."""
    figures = {file: {**result, **result.get(OF_TARGETS, {})} for file, result in sorted(results.items())}
    return [[target.what, f"`{key}`", found[key], target.text, "yes" if target.reached(found[key]) else "**no**",
             f"`{file}`"]
            for key, target in TARGETS.items() for file, found in figures.items()
            if isinstance(found.get(key), (int, float))]  # fmt: skip
