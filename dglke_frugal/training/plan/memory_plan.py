"""How much memory and disk a run needs, part by part, against what there is: reported before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Optional, Tuple

from ... import _native, available_memory
from ...errors import InputError
from ...evaluation.candidates import DRAWN_TOGETHER, GATHERED_BYTES
from ...models import RowDims, TorchModel, find_model
from ...options import TrainConfig, state_floats
from ...store.cache_policy import index_bytes
from ...store.row_bytes import FLOAT, row_bytes
from ..checkpoint.run_folder import CHECKPOINTS
from ..processes.step_exchange import ExchangeFloats
from ..tables.tables import ENTRIES, entity_flushing, rank_flushing
from .column_config import uses_owner_transfer, shard_config
from .step_bytes import (device_step_bytes, entity_row_bytes, full_softmax_bytes, host_step_bytes, kernel_step_bytes)

INTERPRETER_BYTES = 48 << 20  # Python, numpy and the extension themselves
TORCH_BYTES = 250 << 20  # for a custom model
SAMPLED_AHEAD = 16  # batches that the sampler keeps ready
RANKED_TOGETHER = 1 << 16  # queries of an evaluation that are in work at a time
ANSWERS_HELD = 8_000_000  # known triples that answer a test's queries, at a guess; they are sorted by query
PER_PROCESS = {"training step", "batches ahead", "cache index", "entity cache", "evaluation",
               "interpreter", "known triples", "entities in float32"}
ID_BYTES = 8  # of a candidate
EDGE_BYTES = 4  # of a triple's index
FLUSH_RECORDS_BYTES = 3 << 20  # of updates that have not landed
SLOT_BYTES = 8  # that a rank knows of a slot of its cache
HOST, DEVICE, DISK = "host", "device", "disk"
SMALL_FILES_BYTES = 256 << 10  # flags, result and manifests, with the blocks of a file system that they take
LOG_LINE_BYTES = 512  # of metrics.jsonl
Parts = Dict[str, Dict[str, int]]  # bytes by place and name


@dataclass(frozen=True)
class GraphSize:
    """The facts of a graph that decide how much memory a run needs.

    triples: of all splits; ranked: of the largest split that is ranked; id_bytes: of one id in memory; training:
    training triples, None where only those of all splits are known; name_maps: bytes of the files of names that the run
    writes, and so many hold the names in memory, too.
    """

    entities: int
    relations: int
    triples: int
    ranked: int = 0
    id_bytes: int = 4
    training: Optional[int] = None
    name_maps: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes by place and part, and what is available by place: all that this process may take, None where unknown.

    remedy: by place, what the user can do if it is not enough.
    """

    parts: Parts
    available: Dict[str, Optional[int]]
    remedy: Dict[str, str]

    def bytes(self, place: str) -> int:
        """The bytes needed in a place: host, device or disk."""
        return sum(self.parts[place].values())

    @property
    def problem(self) -> Optional[str]:
        """One sentence on the first place that has too little, with what would fit; None if all is well."""
        for place, remedy in self.remedy.items():
            what = "free disk space" if place == DISK else f"{place} memory"
            need, have = _size(self.bytes(place)), _size(self.available[place])
            return f"the run needs {need} of {what}, but can have {have}; {remedy}"
        return None

    def check(self) -> None:
        """Raise InputError if the run needs more than there is."""
        if self.problem:
            raise InputError(self.problem)

    def to_dict(self) -> dict:
        """The plan as plain data, bytes by place."""
        places = {place: {"parts": parts, "bytes": self.bytes(place), "available": self.available[place]}
                  for place, parts in self.parts.items()}
        return {**places, "fits": self.problem is None, "problem": self.problem}

    def lines(self) -> list[str]:
        """The plan as a table for people."""
        lines = []
        for place, parts in self.parts.items():
            if not parts:
                continue
            lines += [f"{place:<8}{name:<28}{_size(size):>12}" for name, size in parts.items()]
            available = self.available[place]
            of = "" if available is None else f"   of {_size(available)}"
            lines.append(f"{place:<8}{'in all':<28}{_size(self.bytes(place)):>12}{of}")
        return lines


def replicas_bytes(config: TrainConfig, graph: GraphSize, dims: RowDims) -> Tuple[int, int]:
    """Memory of several ranks for the tables that each has as a whole, without the tables themselves: bytes of the
    memory of their collectives (training/parallel/replicas.py), and on the CPU of a rank's gradients."""
    ranks, edges = config.device.ranks, config.batch.most_edges
    collective = gradients = 0
    for name, entries in ENTRIES.items():
        dim = getattr(dims, name)
        if not dim:
            continue
        collective += ExchangeFloats.of_sums(min(graph.relations, edges), dim, entries).segment_bytes(ranks)
        gradients += entries * edges * row_bytes(dim)
    return collective, gradients


def plan_memory(config: TrainConfig, graph: GraphSize, folder: Optional[Path] = None,
                parts: Optional[Parts] = None) -> MemoryPlan:
    """Memory of training `config` on a graph of this size on this machine, in the run folder `folder` if given. parts:
    that it takes, by default those of parts_needed."""
    checkpoints = folder and folder / CHECKPOINTS
    available = {HOST: available_memory.host_bytes(), DEVICE: available_memory.device_bytes(config.device.gpu[0]),
                 DISK: available_memory.disk_bytes(folder or Path(config.run.save_path), checkpoints)}
    plan = MemoryPlan(parts or parts_needed(config, graph), available, {})
    short = [place for place, size in available.items() if size is not None and plan.bytes(place) > size]
    return replace(plan, remedy={place: _remedy(place, config, graph, available[place]) for place in short})


def device_bytes_needed(config: TrainConfig, graph: GraphSize) -> int:
    """The device's part of the plan."""
    return sum(parts_needed(config, graph)[DEVICE].values())


def _column_parts(config: TrainConfig, graph: GraphSize) -> Parts:
    """Of ranks that have some columns each: what one of them takes with its own, for all of them."""
    ranks, own = config.device.ranks, shard_config(config)
    parts = _parts_of(own, graph)
    dims = config.model.dims
    if uses_owner_transfer(config, graph.entities):
        from ...store.rows.device_rows import STEPS_ON_DEVICE
        from ...store.rows.row_transfer import SHAPES  # with torch, which runs on the CPU do without

        records = min(graph.entities, own.batch.most_entities) * row_bytes(own.model.dims.entity)
        parts[DEVICE]["training step"] += STEPS_ON_DEVICE * (SHAPES - 1) * records
    for name in parts[HOST].keys() - {"triples"}:
        parts[HOST][name] *= ranks
    gpus = [config.device.gpu_of(rank) for rank in range(ranks)]
    for name in parts[DEVICE]:
        parts[DEVICE][name] *= max(map(gpus.count, gpus))
    if config.evaluation.valid or config.evaluation.test:
        parts[HOST]["whole tables for evaluation"] = (
            graph.entities * entity_row_bytes(config) + graph.relations * row_bytes(dims.relation))
    parts[DISK] = {name: size * ranks for name, size in parts[DISK].items()}
    return parts


def parts_needed(config: TrainConfig, graph: GraphSize) -> Parts:
    """Bytes by place and part."""
    config = config.limited_to(graph.triples if graph.training is None else graph.training)
    return _parts_of(config, replace(graph, relations=config.model.relation_rows(graph.relations)))


def _parts_of(config: TrainConfig, graph: GraphSize) -> Parts:
    """graph: with as many relations as their table has rows."""
    if config.device.parallel == "columns" and config.device.ranks > 1:
        return _column_parts(config, graph)
    model = find_model(config.model.model_name)
    dims = config.model.dims
    tables = {"entity": (graph.entities, dims.entity), "relation": (graph.relations, dims.relation),
              "projection": (graph.relations, dims.projection)}
    tables = {name: shape for name, shape in tables.items() if shape[1]}
    optimizer = config.loss.optimizer
    row = entity_row_bytes(config)
    table_bytes = {f"{name} table": rows * (row if name == "entity" else row_bytes(dim, optimizer=optimizer))
                   for name, (rows, dim) in tables.items()}
    host = dict(table_bytes)
    host["triples"] = graph.triples * (3 * graph.id_bytes + FLOAT * config.weights_per_triple)
    if graph.name_maps:
        host["names"] = graph.name_maps
    if config.device.edge_partition != "random":  # the triples of each rank (training/batches/edge_partition.py)
        host["triples"] += EDGE_BYTES * graph.triples
    if config.batch.exclude_positive:  # csrc/sampler/triple_set.h
        host["known triples"] = 8 << (2 * graph.triples).bit_length()
    device: Dict[str, int] = {}

    batch = config.batch
    positives, negatives = batch.positives, 0 if batch.against_all else batch.most_edges
    distinct = min(graph.entities, 2 * positives + negatives)
    if config.batch.against_all:
        host["training step"] = full_softmax_bytes(config, dims, graph.entities, graph.relations)
    else:
        host["training step"] = host_step_bytes(config, model, dims, negatives)
    if config.model.is_half and config.device.gpu[0] < 0:
        host["training step"] += distinct * row_bytes(dims.entity)  # csrc/store/stochastic_rounded_rows.h
    host["batches ahead"] = (SAMPLED_AHEAD + config.store.lookahead) * (48 * positives + 16 * negatives + 16 * distinct)
    if config.device.gpu[0] >= 0:  # packed, too (csrc/step/batch_packer.h)
        packed = 28 * positives + 8 * negatives + 16 * distinct
        host["batches ahead"] += (SAMPLED_AHEAD + config.store.lookahead) * packed
    on_gpu, ranks = config.device.gpu[0] >= 0, config.device.ranks
    if config.uses_engine:
        flushing = (entity_flushing if ranks == 1 else rank_flushing)(config, graph.entities, dims.entity)
        slots = flushing.slots
        host["flush engine"] = FLUSH_RECORDS_BYTES + _native.engine_bytes(
            flushing, graph.entities, dims.entity, state_floats(optimizer, dims.entity), config.model.row_dtype, on_gpu)
        host["cache index"] = SLOT_BYTES * slots + index_bytes(flushing.policy, slots, graph.entities)
        (device if on_gpu else host)["entity cache"] = slots * row
    if on_gpu:
        device.update({name: size for name, size in table_bytes.items()
                       if name != "entity table" or ranks == 1 and not config.uses_engine})
        device["training step"] = host.pop("training step")
        if not config.batch.against_all:
            device["training step"] = device_step_bytes(
                config, model, dims, distinct, graph.relations,
                device.get("entity cache", device.get("entity table", 0)), device["training step"])
    elif config.computes_on_device and not config.batch.against_all:  # tables, too, with the buffers of csrc/step
        host["training step"] += sum(table_bytes.values())
        host["training step"] += kernel_step_bytes(config, dims, distinct, min(graph.relations, positives), row, 0)
    if config.evaluation.valid or config.evaluation.test:
        host["evaluation"] = _ranking_bytes(config, graph, dims)
        if config.model.is_half and not on_gpu and not 0 < config.evaluation.neg_sample_size_eval < graph.entities:
            host["entities in float32"] = graph.entities * dims.entity * FLOAT  # which the CPU's kernels rank by
    host["interpreter"] = INTERPRETER_BYTES + (
        TORCH_BYTES if on_gpu or isinstance(model, TorchModel) or config.computes_on_device else 0)

    if ranks > 1:
        for name in host.keys() & PER_PROCESS:
            host[name] *= ranks
        collective, gradients = replicas_bytes(config, graph, dims)
        replicas = sum(size for name, size in table_bytes.items() if name != "entity table")
        host["collective of relations"] = collective + (0 if on_gpu else ranks * gradients + (ranks - 1) * replicas)
        if on_gpu:
            device["collective of relations"] = collective
        gpus = [config.device.gpu_of(rank) for rank in range(ranks)]
        for name in device:
            device[name] *= max(map(gpus.count, gpus))  # ranks that share a GPU

    saved = sum(rows * dim * FLOAT for rows, dim in tables.values())
    states = sum(rows * state_floats(optimizer, dim) * FLOAT for rows, dim in tables.values())
    half_of_entities = graph.entities * dims.entity * FLOAT // 2
    embeddings = saved - (half_of_entities if config.run.save_dtype == "fp16" else 0)
    disk = {} if config.run.no_save_emb else {"embeddings": embeddings}
    if config.run.checkpoint_interval or config.run.early_stop_patience:
        # The last one and the one that takes its place; the best one besides.
        saved_by_half_precision = half_of_entities if config.model.is_half else 0
        disk["checkpoints"] = (3 if config.evaluation.valid else 2) * (saved - saved_by_half_precision + states)
    elif disk:
        disk["optimizer states"] = states
    lines = config.run.max_step // config.run.log_interval + config.run.max_step // config.evaluation.eval_interval
    names = 0 if config.run.no_save_emb else graph.name_maps
    disk["flags, names and metrics"] = SMALL_FILES_BYTES + LOG_LINE_BYTES * lines + names
    return {HOST: host, DEVICE: device, DISK: disk}


def _ranking_bytes(config: TrainConfig, graph: GraphSize, dims: RowDims) -> int:
    """Of one process: known triples sorted by query, queries, and where candidates are sampled the lists of a random
    stream twice, as they are drawn and as they are used, and their rows (evaluation/candidates.py)."""
    queries = min(graph.ranked, RANKED_TOGETHER)
    sampled = max(0, config.evaluation.neg_sample_size_eval)
    sampled = 0 if sampled >= graph.entities else sampled  # which are then all entities
    lists = 2 * DRAWN_TOGETHER * ID_BYTES * sampled
    rows = min(GATHERED_BYTES, graph.ranked * sampled * dims.entity * FLOAT)
    known = 36 * min(graph.triples, ANSWERS_HELD) + 12 * graph.entities
    return known + lists + rows + 3 * queries * dims.entity * FLOAT


def _remedy(place: str, config: TrainConfig, graph: GraphSize, available: int) -> str:
    if place == DISK:
        return "free some space, or give another --save_path"
    if place == DEVICE and config.batch.against_all:
        return ("--neg_sample_size all needs the whole table there: use a smaller --hidden_dim, --optimizer "
                "row_adagrad, which has the least state, or a number of negatives")
    if place == DEVICE:
        return _device_remedy(config, graph, available)
    fitting, too_much = 0, config.model.hidden_dim
    while too_much - fitting > 1:
        middle = (fitting + too_much) // 2
        smaller = replace(config, model=replace(config.model, hidden_dim=middle))
        if sum(parts_needed(_even(smaller), graph)[HOST].values()) <= available:
            fitting = middle
        else:
            too_much = middle
    if fitting < 2:
        return ("no --hidden_dim would fit: use a smaller --batch_size or --neg_sample_size, or a machine with more "
                "memory")
    return f"--hidden_dim {fitting - fitting % 2} would fit, or use a machine with more memory"


def _device_remedy(config: TrainConfig, graph: GraphSize, available: int) -> str:
    if config.computes_on_device:
        return (f"--optimizer {config.loss.optimizer} needs the whole table there: use a smaller --hidden_dim, or "
                "--optimizer row_adagrad, which caches rows")
    if config.store.flush == "none":
        return "leave --flush none out, and as many rows are cached as fit"

    def beyond(cache: int) -> int:
        """Bytes by which a run with a cache of that size is too large."""
        return device_bytes_needed(replace(config, store=replace(config.store, cache_size=cache)), graph) - available

    room = -beyond(0)
    if room > 0:
        room -= max(0, beyond(room))  # what grows with the cache
    if room < 1 << 20:
        return "no --cache_size would fit: use a smaller --batch_size or --hidden_dim, or a GPU with more memory"
    return f"--cache_size {room >> 20}MiB would fit"


def _even(config: TrainConfig) -> TrainConfig:
    """With an even --hidden_dim, which every model takes."""
    hidden = max(2, config.model.hidden_dim - config.model.hidden_dim % 2)
    return replace(config, model=replace(config.model, hidden_dim=hidden))


def _size(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**27 else f"{size / 2**20:.1f} MiB"
