"""What `--cache_ratio auto` stands for on this machine."""

from __future__ import annotations

from dataclasses import replace

from .. import available_memory
from ..config import AUTO, TrainConfig
from .columns.column_config import own_config
from .memory.memory_plan import GraphSize, device_bytes_needed, entity_row_bytes

SPARE_BYTES = 512 << 20  # of the device: what CUDA's libraries and torch's allocator take, which no plan counts
RANKING_BYTES = 1 << 30  # that a validation or a test works in, with the table in host memory


def choose_cache(config: TrainConfig, graph: GraphSize) -> TrainConfig:
    """The configuration with the cache that auto stands for; unchanged where a share or a size was asked for.

    One GPU holds as many entity rows as it has room for beside everything else; all of them, resident (--flush none)
    unless a way of flushing was asked for, where they fit. So does each of several that have columns, which are taken to
    be like the first one. Ranks by rows that meet cache none. Other ranks by rows, the CPU, and a GPU that this process
    cannot ask for its memory keep the default share (config.DEFAULT_CACHE_RATIO).
    """
    store, device = config.store, config.device
    if store.cache_ratio != AUTO or store.cache_size is not None or not config.uses_engine:
        return config
    by_columns = device.ranks > 1 and device.parallel == "dims"
    if config.meets and not by_columns:
        return replace(config, store=replace(store, cache_ratio=0.0))
    free = available_memory.device_bytes(device.gpu[0]) if device.ranks == 1 or by_columns else None
    if free is None:
        return config
    ranked = config.evaluation.valid or config.evaluation.test
    room = free - SPARE_BYTES - (RANKING_BYTES if ranked else 0)
    if store.flush == AUTO:
        resident = replace(config, store=replace(store, flush="none"))
        if device_bytes_needed(resident, graph) <= room:
            return resident

    def with_size(size: int) -> TrainConfig:
        return replace(config, store=replace(store, cache_size=size))

    row = entity_row_bytes(own_config(config) if by_columns else config)
    everything = graph.entities * row
    beside = device_bytes_needed(with_size(everything), graph) - everything  # with room to copy cached rows home
    return with_size(min(graph.entities, max(0, room - beside) // row) * row)


def cache_line(config: TrainConfig, graph: GraphSize) -> str:
    """One line on the rows that a device of a chosen configuration holds."""
    if not config.uses_engine:
        return f"the device holds all {graph.entities} entity rows"
    own = own_config(config) if config.device.ranks > 1 and config.device.parallel == "dims" else config
    rows = own.store.cache_slots(graph.entities, entity_row_bytes(own))
    return f"the device caches {rows} of {graph.entities} entity rows"
