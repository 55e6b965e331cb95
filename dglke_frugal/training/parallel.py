"""How several ranks share the work: by rows, each with batches of its own, or by columns (docs/gpus.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, Tuple

from .. import _native
from ..config import AUTO, TrainConfig
from ..errors import InputError
from ..store.flush_config import SMALL_TABLE
from .columns.column_config import own_config, refusal
from .memory.memory_plan import entity_row_bytes

FLOAT = 4  # bytes
FEWEST_COLUMNS = 48  # of hidden_dim in a rank: below it a step costs as much for rows that are half as long


def settle(config: TrainConfig, say: Callable[[str], None] = print) -> TrainConfig:
    """The configuration with --parallel auto decided, which `say` hears. InputError for a mode that the run cannot
    have."""
    device = config.device
    most = _native.MOST_HOST_RANKS if device.gpu[0] < 0 else _native.MOST_DEVICE_RANKS
    if device.ranks > most:
        raise InputError(f"{device.ranks} ranks are more than the {most} that meet on one machine; use fewer with "
                         f"{'--num_proc' if device.num_proc == device.ranks else '--gpu'}")
    if device.gpu[0] < 0 and device.ranks > 1:
        say(slow_processes(device.ranks))
        if config.store.flush is None and config.flush_mode == "sync":
            say(f"--flush sync: {device.ranks} processes leave no core to flush on in the background")
    if device.parallel == "dims" and (why_not := refusal(config)):
        raise InputError(f"--parallel dims {why_not}; or use --parallel rows")
    if device.parallel == "auto":
        chosen, reason = _choose(config)
        if device.gpu[0] >= 0:
            say(f"--parallel {chosen}: {reason}")
        config = replace(config, device=replace(device, parallel=chosen, rel_part=device.rel_part and chosen == "rows"))
    if config.store.bus_rows == "whole" and config.device.parallel != "dims":
        raise InputError("--bus_rows whole is for several GPUs that share out columns (--parallel dims); leave it out")
    return config


def choose_bus_rows(config: TrainConfig, entities: int) -> TrainConfig:
    """The settled configuration with what --bus_rows auto stands for on a graph of so many entities, unless it is measured
    (measured_bus_rows).

    Rows cross the bus whole where each of several GPUs has columns and reaches the others' memory, since what a bus takes
    of a large table is rows, on many machines, more than bytes. Of a small one it takes bytes, and rows that nobody hands
    on are faster (docs/gpus.md).
    """
    if config.store.bus_rows != AUTO:
        return config
    large = entities * entity_row_bytes(config) > SMALL_TABLE
    whole = (large and config.device.ranks > 1 and config.device.parallel == "dims" and not config.keeps_rows_apart
             and _own_gpus(config) and _reach_each_other(config))
    return replace(config, store=replace(config.store, bus_rows="whole" if whole else "own"))


def measured_bus_rows(config: TrainConfig, entities: int, measure: Callable[[int, int, int], Tuple[float, float]],
                      say: Callable[[str], None] = print) -> Dict[str, object]:
    """Of a configuration that choose_bus_rows lets rows cross the bus whole: {"bus_rows": "whole" or "own"} by what the bus
    of this machine takes, which `say` hears, and the measured "own_us" and "whole_us".

    Whole rows unless they are slower: of a table larger than the probe's a bus takes fewer rows still
    (docs/gpus.md).

    measure: store.bus_probe.bus_seconds of a device.
    """
    ranks, short = config.device.ranks, entity_row_bytes(own_config(config)) // FLOAT
    try:
        own, whole = measure(short, ranks, entities * ranks * short * FLOAT)
    except _native.DeviceError as error:
        say(f"--bus_rows own: nothing could be measured: {error}")
        return {"bus_rows": "own"}
    chosen = "whole" if whole <= own else "own"
    say(f"--bus_rows {chosen}: rows of {short * FLOAT} bytes, as each GPU has them, took {own * 1e6:.0f} us of this bus, and "
        f"as many bytes of whole rows {whole * 1e6:.0f}")
    return {"bus_rows": chosen, "own_us": own * 1e6, "whole_us": whole * 1e6}


def known_gain(peer: bool, resident: bool, carried: bool = False) -> str:
    """What columns gained where they were measured last (docs/gpus.md). peer: whether devices reach each
    other's memory. resident: whether they hold all rows. carried: whether they carry rows for each other."""
    if carried:
        return ("two H100 or H200 that carry whole rows for each other trained 1.4 to 1.9 times as many triples/s as "
                "one on 20 million rows behind caches of 5 %, by machine")
    if not peer:
        return ("without peer access two H100 or H200 trained 0.8 to 1.1 times as many triples/s as one on 20 million "
                "rows, by machine, and 0.8 times as many on FB15k: one GPU alone is as good or better")
    times = "1.4 to 1.9" if resident else "1.2 (FB15k) to 1.8 (20 million rows)"
    where = "with all rows on them" if resident else "behind caches"
    return f"two H100 or H200 {where} trained {times} times as many triples/s as one"


def slow_processes(processes: int) -> str:
    """What there is to say about several processes on CPU cores."""
    return (f"--num_proc {processes} on the CPU was slower, where it was measured, than one process with as many "
            f"threads: leave --num_proc out, and set OMP_NUM_THREADS={processes} if it should not take all cores")


def _choose(config: TrainConfig) -> Tuple[str, str]:
    device = config.device
    # DGL-KE has --rel_part so that GPUs share fewer relations; by columns there is nothing to share.
    if why_not := refusal(replace(config, device=replace(device, rel_part=False))):
        return "rows", f"dims {why_not}"
    if not _own_gpus(config):
        return "rows", "ranks share a GPU"
    columns = config.model.hidden_dim // device.ranks
    if columns < FEWEST_COLUMNS:
        return "rows", f"--hidden_dim {config.model.hidden_dim} leaves a GPU {columns} columns"
    reached = _reach_each_other(config)
    if device.rel_part and not reached:
        return "rows", "GPUs that do not reach each other have relations for themselves, as --rel_part says"
    way = "over peer access" if reached else "through host memory"
    unused = ", and all relations, so that --rel_part has nothing to divide" if device.rel_part else ""
    return "dims", (f"each of {device.ranks} GPUs has {columns} of {config.model.hidden_dim} columns{unused}, scores meet "
                    f"{way}")


def _own_gpus(config: TrainConfig) -> bool:
    """Whether each rank has a GPU for itself."""
    device = config.device
    return len({device.gpu_of(rank) for rank in range(device.ranks)}) == device.ranks


def _reach_each_other(config: TrainConfig) -> bool:
    """Whether the GPUs reach each other's memory, and may."""
    device = config.device
    return device.peer != "off" and all(
        _native.reach_each_other(one, other) for one in device.gpu for other in device.gpu)
