"""The choice for each option that is auto: made once, from options, graph and machine, with its reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _native, available_memory
from .errors import InputError
from .models import built_in_model
from .options import AUTO, DEFAULT_CACHE_RATIO, TrainConfig
from .training.plan.column_config import uses_owner_transfer, shard_config, own_gpus, reach_each_other, why_not_sharded
from .training.plan.memory_plan import GraphSize, MemoryPlan, device_bytes_needed, plan_memory
from .training.plan.step_bytes import entity_row_bytes

TENSOR_CORES = (8, 0)  # compute capability from which on they take TF32
PRODUCTS = ("dot", "l2")  # similarities of which a step computes matrix products
FEWEST_COLUMNS = 48  # of hidden_dim in a rank: below it a step costs as much for rows that are half as long
SPARE_BYTES = 512 << 20  # of the device: what CUDA's libraries and torch's allocator take, which no plan counts
RANKING_BYTES = 1 << 30  # that a validation or a test works in, with the table in host memory

Reasons = Mapping[str, str]  # by option that was auto


@dataclass(frozen=True)
class ExecutionPlan:
    """How a run is carried out.

    config: the options, without an auto that the run would have to decide. entities: rows of the entity table. memory:
    what the run takes. reasons: why the options that were auto are what they are.
    """

    config: TrainConfig
    entities: int
    memory: MemoryPlan
    reasons: Reasons

    @property
    def mode(self) -> str:
        """How workers share the work: "alone", "rows" or "columns"."""
        return "alone" if self.config.device.ranks == 1 else "columns" if _is_sharded(self.config) else "rows"

    @property
    def cached_rows(self) -> Optional[int]:
        """Entity rows, or their columns, that the cache of a worker holds; None where there is no cache."""
        own = shard_config(self.config) if self.mode == "columns" else self.config
        if not own.uses_engine or own.flush == "none":
            return None
        return own.store.cache_slots(self.entities, entity_row_bytes(own))

    @property
    def whole_rows(self) -> bool:
        """Whether GPUs move whole rows over the bus for each other."""
        return self.mode == "columns" and uses_owner_transfer(self.config, self.entities)

    def to_dict(self) -> Dict[str, Any]:
        """Everything but the memory, as plain data."""
        device = self.config.device
        return {"mode": self.mode, "workers": device.ranks, "gpu": list(device.gpu), "matmul": device.matmul,
                "flush": self.config.flush, "cached_rows": self.cached_rows, "whole_rows": self.whole_rows,
                "reasons": dict(self.reasons)}

    def lines(self) -> List[str]:
        """The same for people, a line for each decision."""
        device = self.config.device
        where = "the CPU" if device.gpu[0] < 0 else f"GPU {' '.join(map(str, device.gpu))}"
        workers = "one process" if self.mode == "alone" else f"{device.ranks} workers by {self.mode}"
        cached = self.cached_rows
        found = [f"{workers} on {where}{', which move whole rows for each other' if self.whole_rows else ''}"]
        values = {"parallel": None if self.mode == "alone" else device.parallel,
                  "matmul": None if device.gpu[0] < 0 else device.matmul, "flush": self.config.flush,
                  "cache": None if cached is None else f"{cached} of {self.entities} entity rows"}
        return found + [f"{_option(name)} {value}: {self.reasons.get(name, 'as given')}"
                        for name, value in values.items() if value is not None]

    def log_lines(self) -> List[str]:
        """Log lines of a run on GPUs or of several processes on the choices that depend on the size of its graph."""
        if self.mode == "alone" and self.config.device.gpu[0] < 0:
            return []
        return [line for line in self.lines() if line.startswith(tuple(map(_option, self.reasons.keys() & LATE)))]


LATE = {"flush", "cache"}  # that the size of the graph decides on


def _option(name: str) -> str:
    return "cache" if name == "cache" else f"--{name}"


def resolve_workers(config: TrainConfig) -> Tuple[TrainConfig, Reasons]:
    """The configuration with --matmul and --parallel decided, which processes start with, and why they are so.

    InputError for a mode that the run cannot have.
    """
    config, reasons = _with_matmul(config)
    device = config.device
    if device.ranks == 1:
        return config, reasons
    most = _native.MOST_HOST_RANKS if device.gpu[0] < 0 else _native.MOST_DEVICE_RANKS
    if device.ranks > most:
        raise InputError(f"{device.ranks} ranks are more than the {most} that one machine can run; use fewer with "
                         f"{'--num_proc' if device.num_proc == device.ranks else '--gpu'}")
    if device.parallel == "columns" and (reason := why_not_sharded(config)):
        raise InputError(f"--parallel columns {reason}; or use --parallel rows")
    if device.parallel == AUTO:
        chosen, reasons["parallel"] = _parallel(config)
        rel_part = device.rel_part and chosen == "rows"
        config = replace(config, device=replace(device, parallel=chosen, rel_part=rel_part))
    if config.store.flush == "direct" and config.in_step_sync and config.model.is_half:
        raise InputError(f"--flush direct does not go with --row_dtype {config.model.row_dtype} on several GPUs that "
                         "train data parallel; use --flush p2f")
    return config, reasons


def resolve(config: TrainConfig, graph: GraphSize, folder: Optional[Path] = None,
            reasons: Optional[Reasons] = None) -> ExecutionPlan:
    """The plan of a run on a graph of that size, with --flush and the cache decided.

    config, reasons: of resolve_workers. folder: the run's, if it has one.
    """
    config, found = _with_cache(config, graph)
    return ExecutionPlan(config, graph.entities, plan_memory(config, graph, folder), {**(reasons or {}), **found})


def _with_matmul(config: TrainConfig) -> Tuple[TrainConfig, Dict[str, str]]:
    """tf32x3, which is as near to exact sums as fp32 and faster, on GPUs that have tensor cores for it, where the
    kernels of the model's step multiply matrices; elsewhere fp32, by which the tables are the CPU's."""
    if config.device.matmul != AUTO:
        return config, {}
    if not _multiplies(config):
        chosen, reason = "fp32", "a step of this model multiplies no matrices on tensor cores"
    elif not _has_tensor_cores(config):
        chosen, reason = "fp32", "there are no tensor cores for tf32"
    else:
        chosen, reason = "tf32x3", "as near to exact sums as fp32, and faster"
    return replace(config, device=replace(config.device, matmul=chosen)), {"matmul": reason}


def _multiplies(config: TrainConfig) -> bool:
    model = built_in_model(config.model.model_name)
    return model is not None and not model.matrices and model.similarity in PRODUCTS and not config.batch.against_all


def _has_tensor_cores(config: TrainConfig) -> bool:
    gpus = config.device.gpu
    devices, _ = _native.cuda_devices(with_free_memory=False) if gpus[0] >= 0 else ([], "")
    return all(0 <= gpu < len(devices) and devices[gpu]["capability"] >= TENSOR_CORES for gpu in gpus)


def _is_sharded(config: TrainConfig) -> bool:
    return config.device.ranks > 1 and config.device.parallel == "columns"


def _parallel(config: TrainConfig) -> Tuple[str, str]:
    device = config.device
    # DGL-KE has --rel_part so that GPUs share fewer relations; sharded by columns there is nothing to share.
    if reason := why_not_sharded(replace(config, device=replace(device, rel_part=False))):
        return "rows", f"columns {reason}"
    if not own_gpus(config):
        return "rows", "ranks share a GPU"
    columns = config.model.hidden_dim // device.ranks
    if columns < FEWEST_COLUMNS:
        return "rows", f"--hidden_dim {config.model.hidden_dim} leaves a GPU {columns} columns"
    reached = reach_each_other(config)
    if device.rel_part and not reached:
        return "rows", "GPUs that do not reach each other have relations for themselves, as --rel_part says"
    way = "over peer access" if reached else "through host memory"
    unused = ", and all relations, so that --rel_part has nothing to divide" if device.rel_part else ""
    return "columns", (f"each of {device.ranks} GPUs has {columns} of {config.model.hidden_dim} columns{unused}, "
                       "scores "
                       f"are added {way}")


def _with_cache(config: TrainConfig, graph: GraphSize) -> Tuple[TrainConfig, Dict[str, str]]:
    """With --flush and the cache. A cache that was asked for is kept, and so is a way of flushing.

    One GPU holds as many entity rows as it has room for next to everything else; all of them, resident, where they fit.
    So does each of several that have columns, which are taken to be like the first one.
    """
    store, given = config.store, config.store.cache_ratio != AUTO or config.store.cache_size is not None
    room = None if given else _room(config)
    if store.flush == AUTO and room is not None:
        resident = replace(config, store=replace(store, flush="none"))
        if device_bytes_needed(resident, graph) <= room:
            return resident, {"flush": f"the GPU holds all {graph.entities} entity rows"}
    reasons = {"flush": _why_flush(config)} if store.flush == AUTO else {}
    if config.uses_engine and not given:
        changes, reasons["cache"] = _cache(config, graph, room)
        store = replace(store, **changes)
    return replace(config, store=replace(store, flush=config.flush)), reasons


def _room(config: TrainConfig) -> Optional[int]:
    """Bytes of a GPU for the run; None where there is none, where it is not known, and with data-parallel ranks."""
    alone_or_columns = config.device.ranks == 1 or _is_sharded(config)
    free = available_memory.device_bytes(config.device.gpu[0]) if config.uses_engine and alone_or_columns else None
    ranked = config.evaluation.valid or config.evaluation.test
    return None if free is None else free - SPARE_BYTES - (RANKING_BYTES if ranked else 0)


def _why_flush(config: TrainConfig) -> str:
    processes = config.device.ranks
    if config.computes_on_device:
        return "each step updates rows where they lie"
    if config.device.gpu[0] >= 0:
        return ("the GPU stores new values itself, during the next steps" if config.flush == "direct" else
                f"data-parallel GPUs share rows in {config.model.row_dtype} through flush threads")
    return {"none": "one process on the CPU updates rows where they lie",
            "sync": f"{processes} processes leave no core to flush on in the background",
            "p2f": f"there is a core to flush on in addition to those of {processes} processes"}[config.flush]


def _cache(config: TrainConfig, graph: GraphSize, room: Optional[int]) -> Tuple[Dict[str, Any], str]:
    """(options of the store, why)."""
    if config.in_step_sync:
        return {"cache_ratio": 0.0}, "data-parallel GPUs hand rows on in each step, and cache none"
    if room is None:
        unknown = config.device.gpu[0] >= 0 and config.device.ranks == 1
        return {"cache_ratio": DEFAULT_CACHE_RATIO}, (
            "this GPU cannot be asked here how much memory it has" if unknown else
            f"{DEFAULT_CACHE_RATIO:.0%}, where no GPU's memory decides")

    row = entity_row_bytes(shard_config(config) if _is_sharded(config) else config)
    everything = graph.entities * row
    # With room to copy cached rows to the host.
    with_everything = replace(config, store=replace(config.store, cache_size=everything))
    other_bytes = device_bytes_needed(with_everything, graph) - everything
    size = min(graph.entities, max(0, room - other_bytes) // row) * row
    return {"cache_size": size}, "as many as the GPU has room for"
