"""How several ranks share the work: data parallel, or sharded by columns (docs/gpus.md)."""

from __future__ import annotations


def known_gain(peer: bool, resident: bool, owner_transfer: bool = False) -> str:
    """The measured gain of sharding by columns (docs/gpus.md). peer: whether devices reach each
    other's memory. resident: whether they hold all rows. owner_transfer: whether a row's owner moves it for all."""
    if owner_transfer:
        return ("two H100 or H200 that move whole rows for each other trained 1.4 to 1.9 times as many triples/s as "
                "one on 20 million rows behind caches of 5 %, by machine")
    if not peer:
        return ("without peer access two H100 or H200 trained 0.8 to 1.1 times as many triples/s as one on 20 million "
                "rows, by machine, and 0.8 times as many on FB15k: one GPU alone is as good or better")
    times = "1.4 to 1.9" if resident else "1.2 (FB15k) to 1.8 (20 million rows)"
    where = "with all rows on them" if resident else "behind caches"
    return f"two H100 or H200 {where} trained {times} times as many triples/s as one"


def slow_processes(processes: int) -> str:
    """The message about several processes on CPU cores."""
    return (f"--num_proc {processes} on the CPU was slower, where it was measured, than one process with as many "
            f"threads: leave --num_proc out, and set OMP_NUM_THREADS={processes} if it should not take all cores")
