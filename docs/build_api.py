"""Builds the API reference from the docstrings: python docs/build_api.py [FOLDER]   (pip install 'dglke-frugal[docs]')

A warning of pdoc's is an error here, so a reference that was built is whole.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pdoc

# Import what only exists while DGL-KE runs: dgl's modules of today, after compat.install().
NEEDS_DGL = ("compat.graph", "compat.partition", "compat.repairs", "compat.sampler")


def build(folder: Path) -> None:
    """Write HTML pages into `folder`."""
    warnings.simplefilter("error")
    pdoc.render.configure(docformat="google", show_source=False, search=True)
    pdoc.pdoc(
        "dglke_frugal",
        "!dglke_frugal.__main__",
        *(f"!dglke_frugal.{name}" for name in NEEDS_DGL),
        output_directory=folder,
    )


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/api"))
