"""What a benchmark ran on: processor, memory, GPU, versions, commit, date; result_file.py adds it to every result."""

from __future__ import annotations

import datetime
import functools
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Optional

from .commit import commit as find_commit

PACKAGES = ("dglke-frugal", "torch", "numpy", "dgl", "dglke")


def facts() -> Dict[str, Any]:
    """This machine, as plain data."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(),
        "processor": _line_after("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": _gpu(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": {"python": platform.python_version(),
                     **{name: _version(name) for name in PACKAGES if _version(name)}}}


def _line_after(path: str, key: str) -> Optional[str]:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return None


@functools.lru_cache(maxsize=None)
def commit() -> Optional[str]:
    """The commit that runs, as it was when this was first asked for: see commit.py."""
    return find_commit()


def _gpu() -> Optional[str]:
    import torch

    if not torch.cuda.is_available():
        return None
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{len(names)} x {names[0]}, CUDA {torch.version.cuda}"


def _version(package: str) -> Optional[str]:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
