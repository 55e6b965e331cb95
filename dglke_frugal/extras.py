"""Packages that the program can use and does not need: the extras of pyproject.toml, each with what it is for."""

from __future__ import annotations

import re
import sys
from typing import List

EXTRAS = {
    "vanilla": "DGL-KE's own code: --backend vanilla, --trainer dglke",
    "metis": "--partition metis",
    "search": "dglke_frugal search",
    "plots": "Optuna's plots on the page of a search",
    "report": "a report's pictures as PNG files",
    "faiss": "--index faiss",
    "ogb": "fetching WikiKG90M",
    "tensorboard": "--trackers tensorboard",
    "wandb": "--trackers wandb",
    "mlflow": "--trackers mlflow",
    "tables": "data frames in and out (pandas), and Parquet files (pyarrow)"}


def install_command(extra: str) -> str:
    """The command that installs an extra's packages, whether this package came from a checkout or from a wheel."""
    wanted = _requirements(extra)
    if not wanted:  # run from a checkout that was never installed, or installed before it had the extra
        return f'pip install ".[{extra}]" in the checkout'
    return "pip install " + " ".join(f"'{each}'" if re.search("[<>]", each) else each for each in wanted)


def missing(extra: str) -> List[str]:
    """The extra's packages that are not installed, by name; of an unknown extra its own name."""
    from importlib import metadata

    found = []
    for requirement in _requirements(extra) or [extra]:
        name = re.match(r"[\w.-]+", requirement)[0]
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(name)
    return found


def runs_on_this_python(extra: str) -> bool:
    """Whether the extra's packages have releases for this Python."""
    return extra != "vanilla" or sys.version_info < (3, 13)


def _requirements(extra: str) -> List[str]:
    from importlib import metadata  # here, because every run would wait for it

    try:
        declared = metadata.requires("dglke-frugal") or []
    except metadata.PackageNotFoundError:
        return []
    split = (requirement.partition(";") for requirement in declared)
    return [wanted.strip() for wanted, _, marker in split if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker)]
