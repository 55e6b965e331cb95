"""How many threads a run may ask for on this machine."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional

from ...errors import InputError, shown
from ...options import TrainConfig

FEW = 1024  # that any machine is asked for
PER_CORE = 16  # beyond which threads only wait for each other
SYSTEM = ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max")
MOST_RANKS, MOST_PORTS = 1 << 20, 65535
TABLES = 2  # with flush threads of their own: entities and relations


def most_threads() -> int:
    """Threads that a run can use here: a number for each core, and no more than the system allows."""
    return min(max(FEW, PER_CORE * len(os.sched_getaffinity(0))), *_limits())


def _limits() -> Iterator[int]:
    """Threads that system, user and control groups (version 1 or 2) allow."""
    user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if user != resource.RLIM_INFINITY and os.geteuid() != 0:
        yield user
    files = [Path(path) for path in SYSTEM]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "pids"):
                root = Path("/sys/fs/cgroup") / controllers
                group = root / path.lstrip("/")
                files += [folder / "pids.max" for folder in (group, *group.parents) if folder.is_relative_to(root)]
    for file in files:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            yield int(file.read_text())


def check_threads(wanted: Mapping[str, int]) -> None:
    """Raise InputError if the threads are more than most_threads() in all. wanted: how many, by what asks for them."""
    total, most = sum(wanted.values()), most_threads()
    if total > most:
        name = max(wanted, key=lambda each: wanted[each])
        raise InputError(f"{name} makes this {total} threads in all, and this machine takes {most}; give fewer")


def torchrun_number(name: str, default: Optional[int] = None) -> int:
    """A number that torchrun gives in an environment variable. Raises InputError if it is none, or one that torchrun
    does not give."""
    given = os.environ.get(name, default)
    try:
        number = int(given)
    except (TypeError, ValueError):
        found = "is not set" if given is None else f"is '{shown(given)}', which is no number"
    else:
        least, most = 1, MOST_RANKS
        if name == "RANK":
            least, most = 0, torchrun_number("WORLD_SIZE", MOST_RANKS) - 1
        elif name == "MASTER_PORT":
            most = MOST_PORTS
        if least <= number <= most:
            return number
        found = f"is {shown(number)}, and must be from {least} to {most}"
    raise InputError(f"the environment variable {name} {found}; start the ranks with torchrun, or unset WORLD_SIZE")


def threads_of_run(config: TrainConfig, of_process: int) -> Dict[str, int]:
    """Threads of all processes of a run, for check_threads. of_process: those of each one's kernels."""
    ranks = max(config.device.ranks, torchrun_number("WORLD_SIZE", 1))
    source = "--num_thread" if config.device.ranks > 1 else "OMP_NUM_THREADS"
    store = config.store
    return {f"--num_proc {ranks}": ranks, f"{source} {of_process}": ranks * of_process,
            f"--sampler_threads {store.sampler_threads}": ranks * max(1, store.sampler_threads),
            f"--flush_threads {config.flush_threads}": TABLES * config.flush_threads}  # fmt: skip
