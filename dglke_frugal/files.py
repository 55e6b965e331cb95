"""Writing files so that a reader, a crash or a full disk never finds a half-written one; reading JSON."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Iterator, Optional

from .errors import InputError, remedy_of_reading, shortage

UNFINISHED, COMPLETE = ".saving", ".saved"  # folders of replace_together, before and after its files are complete
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # of file systems without it, and of unreadable folders

_OF_A_RUN = ("config.json", "config.yaml", "result.json", "entities.tsv", "relations.tsv")


@contextlib.contextmanager
def replace_file(path: str | os.PathLike, mode: str = "wb") -> Iterator[IO]:
    """Open a temporary file next to `path` that takes its place when the block ends without an exception.

    A symbolic link stays, and what it points to is replaced; a file keeps its permissions. What is no regular file (a
    device, a FIFO, this process's standard output) cannot be replaced and is written to as the block goes on.

    Raises InputError if the folder cannot be written or the disk is full; then a regular file is as it was before.
    """
    path = Path(path)
    with contextlib.ExitStack() as stack:
        try:
            status = _status(path)
            if status is not None and (_standard_stream(status) is not None or not _is_file_or_folder(status)):
                file = stack.enter_context(_written_through(path, status, mode))
            else:
                file = stack.enter_context(_written_beside(Path(os.path.realpath(path)), status, mode))
        except OSError as error:
            raise shortage(error) or InputError(
                f"cannot write {path}: {error.strerror}; choose a folder that exists and is writable") from error
        try:
            with stack.pop_all():
                yield file
        except OSError as error:
            raise shortage(error) or InputError(
                f"cannot write {path}: {error.strerror}; free some space or choose another folder") from error


@contextlib.contextmanager
def replace_together(folder: str | os.PathLike) -> Iterator[Path]:
    """Give a new folder; when the block ends without an exception, what it holds takes its place in `folder`, all of it
    or nothing, even where the process is killed. What the block writes must be on the disk, as replace_file leaves it.

    From the moment on that all is complete, the old files go before the first new one comes, so that no reader finds
    files of both. What is killed then is ended by finish_replacing; until then check_replaced refuses the folder.

    Raises InputError if the folder cannot be written or the disk is full; then it is as it was before.
    """
    folder = Path(folder)
    finish_replacing(folder)
    unfinished = folder / UNFINISHED
    try:
        try:
            unfinished.mkdir()
            yield unfinished
            sync_folder(unfinished)
            os.rename(unfinished, folder / COMPLETE)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except OSError as error:
        raise shortage(error) or InputError(
            f"cannot write {folder}: {error.strerror}; free some space or choose another folder") from error
    finish_replacing(folder)


def finish_replacing(folder: str | os.PathLike) -> None:
    """End what a killed replace_together has left: complete files take their place, others are removed. InputError."""
    folder = Path(folder)
    complete = folder / COMPLETE
    try:
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        if not complete.is_dir():
            return
        sync_folder(folder)
        names = sorted(os.listdir(complete))
        for name in names:
            _remove(folder / name)
        sync_folder(folder)
        for name in names:
            os.rename(complete / name, folder / name)
        sync_folder(folder)
        complete.rmdir()
    except OSError as error:
        raise shortage(error) or InputError(
            f"cannot write {folder}: {error.strerror}; make it writable, and resume the run") from error


def is_being_replaced(folder: str | os.PathLike) -> bool:
    """Whether a replace_together of the folder's files is going on, or was killed, so that finish_replacing has
    work."""
    return any((Path(folder) / name).exists() for name in (UNFINISHED, COMPLETE))


def check_replaced(folder: str | os.PathLike) -> None:
    """Raise InputError if a replace_together of the folder's files is at its end, or was killed there."""
    if (Path(folder) / COMPLETE).exists():
        raise InputError(f"the saving of {folder} was interrupted, or is going on, so that not all of its files are in "
                         f"their place; end it with: dglke_train --resume {shlex.quote(str(folder))}")


def sync_folder(folder: str | os.PathLike) -> None:
    """Make the names in a folder survive a power failure, where the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_output(path: str | os.PathLike, beginning: bytes, made: Optional[str | os.PathLike] = None) -> None:
    """Raise InputError unless a command may write its output to `path`: where there is no file yet, an empty one, or
    one that an earlier call has written. So it never takes the place of an input, of a map or of another one's file,
    and a command whose work takes long ends before it where the folder cannot be written.

    beginning: pattern of how all outputs of the command begin. made: a folder that the command makes. Nothing is asked
    of what is no regular file.
    """
    path = Path(path)
    if path.name in _OF_A_RUN and (path.parent / "config.json").exists():
        raise InputError(f"{path} would be taken for a file of the run in {path.parent}; choose another name or folder")
    try:
        status = _status(path)
        if status is not None and (not _is_file_or_folder(status) or _standard_stream(status) is not None):
            return
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        folder = os.path.dirname(os.path.realpath(path))
        if made is None or folder != os.path.realpath(made):
            os.stat(os.path.join(folder, ""))  # whose error says why it is no folder
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if status is None:
            return
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose a folder that exists and is writable, or "
                         "another name") from error
    if start and not re.match(beginning, start, re.DOTALL):
        raise InputError(f"{path} is there already, and is no earlier output of this command; choose another name, or "
                         "remove it")


def is_standard_output(path: str | os.PathLike) -> bool:
    """Whether what is written to `path` goes where this process prints, as with /dev/stdout."""
    with contextlib.suppress(OSError):
        status = _status(Path(path))
        return status is not None and _standard_stream(status) == 1
    return False


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write a value as JSON, by replace_file; numbers that are not finite, which JSON has none of, become null."""
    with replace_file(path, "w") as file:
        json.dump(_finite(value), file, indent=2)
        file.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: str | os.PathLike, remedy: str) -> Any:
    """The contents of a JSON file. FileNotFoundError if there is none; InputError, with the remedy, if it cannot be
    read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except RecursionError:
        reason = "it is nested too deeply"
    except OSError as error:
        reason, remedy = error.strerror, remedy_of_reading(error, remedy)
    except ValueError as error:
        reason = str(error).partition("; use sys.")[0]  # Python's advice on long integers is for programmers
    raise InputError(f"cannot read {path}: {reason}; {remedy}")


def check_kinds(path: str | os.PathLike, content: Any, kinds: Any, remedy: str) -> None:
    """Raise InputError, with the remedy, for the content of a JSON file in which a value is of another kind. Values in
    it may be missing, or null.

    kinds: a type (float: any number); a dictionary of the kinds of some keys; or a list with the kind of all items.
    """
    wrong = "" if content is None else _of_another_kind(content, kinds)
    if wrong is not None:
        raise InputError(f"{path} does not hold what was written there{wrong and f', by its {wrong}'}; {remedy}")


def _of_another_kind(value: Any, kinds: Any) -> Optional[str]:
    """The place, such as test.MRR, of the first value of another kind; None if there is none."""
    if value is None:
        return None
    if isinstance(kinds, list):
        kinds = dict.fromkeys(range(len(value)), kinds[0]) if isinstance(value, list) else {}
        value = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(kinds, dict):
        return None if isinstance(value, (int, float) if kinds is float else kinds) else ""
    if not isinstance(value, dict):
        return ""
    found = ((key, _of_another_kind(value.get(key), kind)) for key, kind in kinds.items())
    return next((f"{key}.{place}".rstrip(".") for key, place in found if place is not None), None)


def _status(path: Path) -> Optional[os.stat_result]:
    """Of what `path` leads to, None if that is not there (yet)."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_file_or_folder(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def _standard_stream(status: os.stat_result) -> Optional[int]:
    """1 or 2 if this is what standard output or standard error is connected to, be it a file, a pipe or a terminal."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


@contextlib.contextmanager
def _written_through(path: Path, status: os.stat_result, mode: str) -> Iterator[IO]:
    stream = _standard_stream(status)
    if stream is None:
        target = os.open(path, os.O_WRONLY)
    else:  # the same position in the file as that of what is printed
        (sys.stdout if stream == 1 else sys.stderr).flush()
        target = os.dup(stream)
    with _as_file(target, mode) as file:
        yield file


@contextlib.contextmanager
def _written_beside(path: Path, status: Optional[os.stat_result], mode: str) -> Iterator[IO]:
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with _as_file(descriptor, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask() if status is None else stat.S_IMODE(status.st_mode))
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _as_file(descriptor: int, mode: str) -> IO:
    return os.fdopen(descriptor, mode, encoding=None if "b" in mode else "utf-8")


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
