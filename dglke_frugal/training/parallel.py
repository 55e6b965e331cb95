"""How several ranks share the work: by rows, each with batches of its own, or by columns (docs/gpus.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Tuple

from .. import _native
from ..config import AUTO, TrainConfig
from ..errors import InputError
from .columns.column_config import own_gpus, reach_each_other, refusal

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
        if config.store.flush == AUTO and config.flush == "sync":
            say(f"--flush sync: {device.ranks} processes leave no core to flush on in the background")
    if device.parallel == "dims" and (why_not := refusal(config)):
        raise InputError(f"--parallel dims {why_not}; or use --parallel rows")
    if device.parallel == "auto":
        chosen, reason = _choose(config)
        if device.gpu[0] >= 0:
            say(f"--parallel {chosen}: {reason}")
        config = replace(config, device=replace(device, parallel=chosen, rel_part=device.rel_part and chosen == "rows"))
    if config.store.flush == "direct" and config.meets and config.model.in_halves:
        raise InputError(f"--flush direct does not go with --row_dtype {config.model.row_dtype} on several GPUs that "
                         "train by rows; use --flush p2f")
    return config


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
    return "dims", (f"each of {device.ranks} GPUs has {columns} of {config.model.hidden_dim} columns{unused}, scores meet "
                    f"{way}")
