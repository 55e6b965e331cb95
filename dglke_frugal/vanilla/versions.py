"""Which releases of dgl, dglke and torch this package can join."""

from __future__ import annotations

import os
import re
from importlib import metadata

from ..errors import InputError
from ..extras import install_command, runs_on_this_python

DGLKE = "0.1.2"
OLDEST_DGL, NEWEST_DGL = (1, 1), (2, 1)
OLDEST_TORCH = (2, 4)


def check_versions() -> None:
    """Raise InputError, with one sentence, unless the installed releases are known to work."""
    dglke = _installed("dglke")
    if dglke != DGLKE:
        raise InputError(f"dglke {dglke} is installed but --backend vanilla needs {DGLKE}: pip install dglke=={DGLKE}")
    dgl = _installed("dgl")
    if not OLDEST_DGL <= _release(dgl) <= NEWEST_DGL:
        raise InputError(f"dgl {dgl} is installed but --backend vanilla needs 1.1.x to 2.1.x: pip install dgl==2.1.0")
    for name in ("packaging", "scipy"):  # dgl and dglke import them and do not declare them
        _installed(name)
    torch = _installed("torch")
    if _release(torch) < OLDEST_TORCH:
        raise InputError(f"torch {torch} is installed but torch 2.4 or newer is needed: pip install 'torch>=2.4'")
    backend = os.environ.get("DGLBACKEND", "pytorch")
    if backend.lower() != "pytorch":
        raise InputError(f"DGLBACKEND is {backend!r} but only pytorch is supported: unset DGLBACKEND")


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        remedy = "pip install torch" if name == "torch" else install_command("vanilla")
        if name != "torch" and not runs_on_this_python("vanilla"):
            remedy = "use Python 3.9 to 3.12, for which dgl has wheels, or our own trainer, which needs neither"
        raise InputError(
            f"DGL-KE's own code (--backend vanilla, --trainer dglke, partitions by METIS) needs {name}, which is not "
            f"installed: {remedy}") from None


def _release(version: str) -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()
    return int(major), int(minor)
