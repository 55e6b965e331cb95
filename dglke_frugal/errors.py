"""Errors that end a run, and how any error is reported in a line."""
from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from typing import Callable, Iterator, Optional


class InputError(Exception):
    """Something the user gave cannot be used. The message is one sentence that names what, where and the remedy.

    Commands print it without a traceback and exit with code 2.
    """


def one_line(text: str) -> str:
    """A text with spaces for its line ends."""
    return re.sub(r"\s*\n\s*", " ", text)


def shown(value: object, form: Callable[[object], str] = str) -> str:
    """A value that somebody gave, for a sentence: one line, and not longer than it can be read. form: str or repr."""
    try:
        text = one_line(form(value))
    except ValueError:  # Python refuses to write integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:40]}... ({len(text)} characters)"


def unencodable(error: UnicodeEncodeError) -> InputError:
    """The message about text that the file names of this locale cannot hold."""
    return InputError(f"{ascii(shown(error.object))} cannot be written in this locale's encoding ({error.encoding}); "
                      "set LC_ALL=C.UTF-8 or PYTHONUTF8=1")


_SHORT_OF = {
    "memory": "this process can have no more memory; use a smaller --batch_size, --neg_sample_size or --hidden_dim, "
              "raise the limit of the process (ulimit -v, or its control group), or use a machine with more",
    "device memory": "the GPU has no more memory; use a smaller --batch_size, --neg_sample_size, --cache_size or "
                     "--hidden_dim, or end what else runs there",
    "files": "this process can have no more open files; raise the limit (ulimit -n), or use fewer processes",
    "threads": "the system gives this process no more threads; give fewer with --num_proc, --num_thread, "
               "--flush_threads or --sampler_threads, or end other processes"}
_ERRNO = {errno.ENOMEM: "memory", errno.EMFILE: "files", errno.ENFILE: "files", errno.EAGAIN: "threads"}
_REFUSED = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)  # even the question whether there is such a file
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WHOLE = (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)  # errors of reading a file that may be as it should be
# Messages of libraries that have no error of their own for it: of CUDA, torch's CPU, Python, csrc, and the loader of
# shared objects. An earlier entry goes before a later one.
_SAID = {"CUDA out of memory": "device memory", "can't allocate memory": "memory", "can't start new thread": "threads",
         "no more threads": "threads", "failed to map segment": "memory", "Cannot allocate memory": "memory",
         # where there was none for Python's exception either
         "error return without exception set": "memory", "without setting an exception": "memory"}


def shortage(error: Optional[BaseException]) -> Optional[InputError]:
    """The message where the system had no more memory, threads or open files; None of every other error."""
    short_of = None
    if isinstance(error, MemoryError):
        short_of = "memory"
    elif isinstance(error, OSError):
        short_of = _ERRNO.get(error.errno)
    if short_of is None and isinstance(error, (RuntimeError, ImportError, OSError, SystemError)):
        short_of = next((what for words, what in _SAID.items() if words in str(error)), None)
    if short_of is None and isinstance(error, ImportError):  # numpy wraps what the loader says
        return shortage(error.__cause__ or error.__context__)
    return None if short_of is None else InputError(_SHORT_OF[short_of])


def refused_path(error: BaseException) -> Optional[InputError]:
    """The message where the system refuses a path, whatever is asked of it, the current folder is gone, or a disk is
    full; None of every other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and error.filename is None and not _has_current_folder():
        return InputError("the current folder has been removed; change to one that is there")
    if error.errno in _FULL:
        place = "a file or the standard output" if error.filename is None else shown(error.filename)
        return InputError(f"cannot write {place}: {error.strerror}; free some space")
    if error.errno in _REFUSED and error.filename is not None:
        return InputError(f"cannot use {shown(error.filename)}: {error.strerror}; give a path that this user may use")
    return None


def remedy_of_reading(error: Exception, if_damaged: str) -> str:
    """What to do about a file that cannot be read; to remove it would lose one that this user may only not read."""
    return "check its permissions and its disk" if getattr(error, "errno", None) in _WHOLE else if_damaged


def _has_current_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def shortages_as_input_errors() -> Iterator[None]:
    """InputError where the system has no more memory, threads or open files, whatever its limits say, or refuses a
    path."""
    try:
        yield
    except Exception as error:
        if (message := shortage(error) or refused_path(error)) is None:
            raise
        raise message from error


def first_line(error: BaseException) -> str:
    """The first line of an error: CUDA's other lines are advice for programmers."""
    return str(error).partition("\n")[0] or type(error).__name__


class DeviceLost(SystemExit):
    """A device has failed for good, and the run has said so and closed its files; the code is that of the process.

    Releasing the rest of such a device aborts the process, so the process has to end before that.
    """

    def end_process(self) -> None:
        """End it now, with nothing released."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)
