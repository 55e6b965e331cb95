"""Standard output and standard error of runs, in one or several processes: closed terminals, ended readers and full
disks do not end them, and lines stay whole."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator


def log(line: str) -> None:
    """Print a line by one write: where output is not buffered (PYTHONUNBUFFERED), print makes two of it, between which
    other processes' lines would come."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class _Tolerant:
    """A text stream whose failing writes go nowhere from then on; everything else is the stream's own."""

    def __init__(self, stream, name: str):
        self._stream, self._name = stream, name

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As a text stream's."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """As a text stream's."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Let the descriptor lead to the null device, for what is still in buffers and for other writers too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        with contextlib.suppress(OSError):
            os.write(2, f"{self._name} cannot be written ({error.strerror}); going on without it\n".encode())


@contextlib.contextmanager
def tolerant_output() -> Iterator[None]:
    """While entered, what cannot be printed is lost, reported once on stderr, and ends nothing."""
    for descriptor in range(3):  # a closed one would become that of the next file which is opened
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    sys.stdout = _Tolerant(sys.stdout or open(os.devnull, "w"), "standard output")  # None: closed from the beginning
    sys.stderr = _Tolerant(sys.stderr or open(os.devnull, "w"), "standard error")
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
