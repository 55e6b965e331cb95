"""Reading NumPy's files with errors that suit who did not write them."""

from __future__ import annotations

import contextlib
import os
import tokenize
from typing import Iterator, Optional

import numpy as np


@contextlib.contextmanager
def npy_errors() -> Iterator[None]:
    """ValueError for whatever is wrong with a file of NumPy's: it raises errors of Python's parser for damaged headers,
    and says of files that are none how to unpickle them, which nobody should."""
    try:
        yield
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        if isinstance(error, ValueError) and "pickle" not in str(error):
            raise
        raise ValueError("it is no .npy file of numbers, or its beginning is damaged") from error


@npy_errors()
def read_npy(path: str | os.PathLike, mmap_mode: Optional[str] = "r") -> np.ndarray:
    """An array that np.save wrote, memory-mapped by default. Raises OSError, or ValueError for a damaged file."""
    found = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    if not isinstance(found, np.ndarray):
        raise ValueError("it holds several arrays")
    return found
