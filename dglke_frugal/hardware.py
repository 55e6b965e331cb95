"""The hardware of a run, for its result: processor, cores, memory, GPUs."""
from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Dict, Sequence

from . import _native


def describe(gpus: Sequence[int] = ()) -> Dict[str, Any]:
    """processor, cores that this process may use, memory in bytes, and the names of these GPUs, as plain data."""
    devices, _ = _native.cuda_devices(with_free_memory=False) if gpus else ([], "")
    return {"processor": _processor() or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": [devices[gpu]["name"] for gpu in gpus if 0 <= gpu < len(devices)]}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
