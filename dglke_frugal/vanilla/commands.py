"""DGL-KE's own commands, run in this process."""
from __future__ import annotations

import importlib
import sys
from typing import Sequence

from ..errors import InputError
from .installation import install
from .seeds import seed_everything

_MODULES = {"train": "dglke.train", "eval": "dglke.eval", "predict": "dglke.infer_score",
            "emb_sim": "dglke.infer_emb_sim", "partition": "dglke.partition", "convert": "dglke.convert"}
_CLUSTER = ("server", "client", "dist_train")
# Flags of the unreleased DGL-KE only, each with the shortest abbreviation that 0.1.2 takes for no flag of its own.
_LATER_FLAGS = {"train": {"--pairwise": "--p", "-pw": "-p", "--loss_genre": "--los", "--margin": "--mar", "-m": "-m"}}


def run(command: str, argv: Sequence[str], seed: int | None = None) -> None:
    """Run DGL-KE's `command` with the arguments `argv`, as its console script `dglke_<command>` would.

    Raises InputError for an unknown or a cluster command, or where `install` does; what DGL-KE itself raises comes
    through, as does SystemExit of its argument parser.
    """
    if command in _CLUSTER:
        raise InputError(f"dglke_{command} is not supported: DGL-KE's cluster mode is gone, train on one machine")
    if command not in _MODULES:
        raise InputError(f"unknown command {command!r}: choose one of {', '.join(_MODULES)}")
    install()
    if seed is not None:
        seed_everything(seed)
    before = sys.argv
    sys.argv = [f"dglke_{command}", *argv]
    try:
        importlib.import_module(_MODULES[command]).main()
    finally:
        sys.argv = before


def unknown_flags(command: str, argv: Sequence[str]) -> list[str]:
    """Flags in `argv` that only the unreleased DGL-KE knows, abbreviated or not: their full names, in order."""
    found = []
    for argument in argv:
        given = argument.split("=")[0]
        for flag, shortest in _LATER_FLAGS.get(command, {}).items():
            long = flag.startswith("--")
            if given.startswith(shortest) and (flag.startswith(given) if long else not given.startswith("--")):
                found.append(flag)
    return found
