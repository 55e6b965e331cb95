"""PyTorch's own threads, for what runs between its operations (csrc/base/parallel/callers_threads.h says why)."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

from ... import _native


def borrow() -> None:
    """Lookups run on the threads of the OpenMP runtime that PyTorch is linked to, if it takes GCC's calls.

    torch.set_num_threads counts for them, too. A forked process, which has none of these threads, uses our own.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))  # it is loaded already
        team = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value  # found in it or in what it is linked to
    except (OSError, AttributeError):
        return
    _native.borrow_threads(team)
    os.register_at_fork(after_in_child=lambda: _native.borrow_threads(0))
