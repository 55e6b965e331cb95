"""How much host memory, device memory and disk this process may take on this machine."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

NO_LIMIT = 1 << 60  # control groups of version 1 write a limit near 2^63 for none


def host_bytes() -> Optional[int]:
    """Bytes that this process may hold in all: its own and the ones that it may still take; None if unknown."""
    free = free_host_bytes()
    return None if free is None else free + (_field("/proc/self/status", "RssAnon") or 0)


def free_host_bytes() -> Optional[int]:
    """Bytes that this process may still take: the least that is left on this machine, in the control groups of
    the process and under its limits (ulimit -v and -d); None if unknown."""
    free = [_field("/proc/meminfo", "MemAvailable")]
    free += [max(0, limit - used) for limit, used in (*_control_groups(), *_process_limits()) if limit < NO_LIMIT]
    return min((size for size in free if size is not None), default=None)


def peak_host_bytes() -> Optional[int]:
    """The most that this process has held at any time; None if unknown. (getrusage would count its parent's, too.)"""
    return _field("/proc/self/status", "VmHWM")


def device_bytes(gpu: int) -> Optional[int]:
    """Free memory of a GPU; None for the CPU (-1) and where torch sees no GPU."""
    if gpu < 0:
        return None
    import torch

    return torch.cuda.mem_get_info(gpu)[0] if torch.cuda.is_available() else None


def peak_device_bytes(gpu: int) -> Optional[int]:
    """The most that torch has held on a GPU for this process at any time; None for the CPU (-1). What CUDA itself takes
    for the process is not part of it."""
    if gpu < 0:
        return None
    import torch

    return torch.cuda.max_memory_allocated(gpu) if torch.cuda.is_available() else None


def disk_bytes(folder: Path, given_up: Optional[Path] = None) -> Optional[int]:
    """Bytes that a run in `folder`, which need not exist yet, may write: the free ones, and those in the folder
    `given_up`, whose arrays go as new ones come."""
    existing = next((path for path in (folder, *folder.absolute().parents) if path.is_dir()), None)
    if existing is None:
        return None
    return shutil.disk_usage(existing).free + sum(map(_file_bytes, given_up.glob("**/*.npy") if given_up else ()))


def _file_bytes(path: Path) -> int:
    """0 of a file that has gone meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _control_groups() -> Iterator[Tuple[int, int]]:
    """Limit and use of the groups that hold this process, version 1 or 2. Cached files do not count: they give way."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup/memory" if "memory" in controllers else "/sys/fs/cgroup")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        if controllers and "memory" not in controllers:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            limit, used = (_number(folder / name) for name in names)
            if limit is not None and used is not None:
                yield limit, used - _cached(folder)
            if folder == root:
                break


def _process_limits() -> Iterator[Tuple[int, int]]:
    """Limit and use of the address space and of the private memory of this process."""
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, used = resource.getrlimit(limit)[0], _field("/proc/self/status", name)
        if most != resource.RLIM_INFINITY and used is not None:
            yield most, used


def _cached(group: Path) -> int:
    fields: Dict[str, str] = dict(line.split(" ", 1) for line in _lines(group / "memory.stat"))
    names = ("active_file", "inactive_file")
    return sum(int(fields.get(f"total_{name}", fields.get(name, 0))) for name in names)


def _field(path: str, name: str) -> Optional[int]:
    """Bytes of a field in a file of /proc, which are written as '   123 kB'."""
    found = next((line for line in _lines(path) if line.startswith(f"{name}:")), None)
    return int(found.split()[1]) * 1024 if found else None


def _number(path: Path) -> Optional[int]:
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def _lines(path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
