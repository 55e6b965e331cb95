"""Builds the API reference from the docstrings: python docs/build_api.py [FOLDER]   (pip install 'dglke-frugal[docs]')

A warning of pdoc's is an error here, so a reference that was built is whole.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import typing
import warnings
from pathlib import Path

import pdoc

import dglke_frugal

# Import what only exists while DGL-KE runs: dgl's modules of today, after compat.install().
NEEDS_DGL = ("compat.graph", "compat.partition", "compat.repairs", "compat.sampler")
LEFT_OUT = {f"dglke_frugal.{name}" for name in ("__main__", *NEEDS_DGL)}


def resolve_named_tuples() -> None:
    """Give the constructors of named tuples types in place of strings: pdoc 16 looks those up in the wrong module."""
    for found in pkgutil.walk_packages(dglke_frugal.__path__, "dglke_frugal."):
        if found.name in LEFT_OUT:
            continue
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
                value.__new__.__annotations__ = typing.get_type_hints(value)


def build(folder: Path) -> None:
    """Write HTML pages into `folder`."""
    resolve_named_tuples()
    warnings.simplefilter("error")
    pdoc.render.configure(docformat="google", show_source=False, search=True)
    pdoc.pdoc("dglke_frugal", *(f"!{name}" for name in sorted(LEFT_OUT)), output_directory=folder)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/api"))
