"""Errors that end a run, and how any error is said in a line."""
from __future__ import annotations

import os
import re
import sys


class InputError(Exception):
    """Something the user gave cannot be used. The message is one sentence that names what, where and the remedy.

    Commands print it without a traceback and exit with code 2.
    """


def shown(value: object) -> str:
    """A value that somebody gave, for a sentence: one line, and not longer than it can be read."""
    try:
        text = re.sub(r"\s*\n\s*", " ", str(value))
    except ValueError:  # Python refuses to write integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:40]}... ({len(text)} characters)"


def unencodable(error: UnicodeEncodeError) -> InputError:
    """What to say of text that the file names of this locale cannot hold."""
    return InputError(
        f"{ascii(shown(error.object))} cannot be written in this locale's encoding ({error.encoding}); "
        "set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
    )


def first_line(error: BaseException) -> str:
    """What an error says, without the lines behind it: those of CUDA are advice for programmers."""
    return str(error).partition("\n")[0] or type(error).__name__


class DeviceLost(SystemExit):
    """A device has failed for good, and the run has said so and closed its files; the code is that of the process.

    What is left of such a device aborts the process when it is released, so the process has to end before that.
    """

    def end_process(self) -> None:
        """End it now, with nothing released."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)
