"""Files that one process at a time holds, until it lets go of them or ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
from pathlib import Path
from typing import Iterator

from ...errors import InputError

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what file systems say that have none, as some for clusters


@contextlib.contextmanager
def held(path: Path, taken: str) -> Iterator[None]:
    """While entered, no other process holds the file, which is made if it is not there.

    Where the file system has no locks, nothing is held. Raises InputError, with the sentence `taken` if another process
    holds the file.
    """
    try:
        file = open(path, "ab")
    except OSError as error:
        raise _cannot_write(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise InputError(taken) from error
            if error.errno not in NO_LOCKS:
                raise _cannot_write(path, error) from error
        yield


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror}; give a folder that is writable")


def alone(folder: Path):
    """A context in which no other process trains the run in `folder`. Entering raises InputError if one does."""
    path = folder / "metrics.jsonl"  # of the files that every run has, the one that is never replaced
    return held(path, f"another process is training the run in {folder}; wait until it ends, or stop it, and resume "
                      "then")
