"""How several ranks share the work: by rows, each with batches of its own, or by columns (docs/ranks.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Tuple

from .. import _native
from ..config import TrainConfig
from ..errors import InputError
from .columns.column_config import refusal

FEWEST_COLUMNS = 48  # of hidden_dim in a rank: below it a step costs as much for rows that are half as long


def settle(config: TrainConfig, say: Callable[[str], None] = print) -> TrainConfig:
    """The configuration with --parallel auto decided, which `say` hears. InputError for a mode that the run cannot
    have."""
    device = config.device
    if device.gpu[0] < 0 and device.ranks > 1:
        say(slow_processes(device.ranks))
        if config.store.flush is None and config.flush_mode == "sync":
            say(f"--flush sync: {device.ranks} processes leave no core to flush on in the background")
    why_not = refusal(config)
    if device.parallel == "dims" and why_not:
        raise InputError(f"--parallel dims {why_not}; or use --parallel rows")
    if device.parallel == "auto":
        chosen, reason = _choose(config, why_not)
        if device.gpu[0] >= 0:
            say(f"--parallel {chosen}: {reason}")
        config = replace(config, device=replace(device, parallel=chosen))
    if config.store.bus_rows != "own" and config.device.parallel != "dims":
        raise InputError(f"--bus_rows {config.store.bus_rows} is for several GPUs that share out columns (--parallel "
                         "dims); leave it out")
    return config


def known_gain(peer: bool, resident: bool, carried: bool = False) -> str:
    """What columns gained where they were measured last (docs/ranks_measured.md). peer: whether devices reach each
    other's memory. resident: whether they hold all rows. carried: whether they carry rows for each other."""
    if carried:
        return "what several GPUs gain by --bus_rows whole has not been measured"
    if not peer:
        return ("without peer access two H200 trained 1.0 times as many triples/s as one on 20 million rows, and 0.8 "
                "times as many on FB15k: one GPU is faster alone")
    times = "1.4 to 1.8" if resident else "1.2 (FB15k) to 1.4 (20 million rows)"
    return f"two H200 {'with all rows on them' if resident else 'behind caches'} trained {times} times as many triples/s as one"


def slow_processes(processes: int) -> str:
    """What there is to say about several processes on CPU cores."""
    return (f"--num_proc {processes} on the CPU was slower, where it was measured, than one process with as many "
            "threads (two cores: 126 steps/s of two processes, 150 to 165 of one): leave --num_proc out, and set "
            f"OMP_NUM_THREADS={processes} if it should not take all cores")


def _choose(config: TrainConfig, why_not) -> Tuple[str, str]:
    device = config.device
    if why_not:
        return "rows", f"dims {why_not}"
    if len({device.gpu_of(rank) for rank in range(device.ranks)}) < device.ranks:
        return "rows", "ranks share a GPU"
    columns = config.model.hidden_dim // device.ranks
    if columns < FEWEST_COLUMNS:
        return "rows", f"--hidden_dim {config.model.hidden_dim} leaves a GPU {columns} columns"
    reached = device.peer != "off" and all(
        _native.reach_each_other(one, other) for one in device.gpu for other in device.gpu)
    way = "over peer access" if reached else "through host memory"
    return "dims", f"each of {device.ranks} GPUs has {columns} of {config.model.hidden_dim} columns, scores meet {way}"
