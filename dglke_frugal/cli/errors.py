"""How a command ends when its input is wrong."""
from __future__ import annotations

import codecs
import functools
import os
import signal
import sys
from typing import Optional

from ..errors import DeviceLost, InputError, one_line, refused_path, shortage, unencodable


def reports_input_errors(command):
    """Wrap a command's main: InputError, a shortage of memory, threads or open files, and a path that the system
    refuses, become one line on stderr and exit code 2, Ctrl-C one and 130. A reader that has gone ends the command
    quietly.

    Answers --version, too.
    """

    @functools.wraps(command)
    def main(argv=None):
        _print_whatever_the_locale()
        arguments = sys.argv[1:] if argv is None else list(argv)
        if "--version" in arguments:  # by its whole name: DGL-KE's --valid may be written --v
            from ..version import version

            print(f"dglke_frugal {version()}")
            return None
        try:
            result = command(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except DeviceLost as lost:
            lost.end_process()
        except BrokenPipeError:  # of `| head`: what is left is not wanted
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # for what is still in buffers
            raise SystemExit(128 + signal.SIGPIPE) from None
        except (KeyboardInterrupt, Exception) as error:
            # Before Python 3.12 one that comes while a class is made is the cause of another error.
            if KeyboardInterrupt in (type(error), type(error.__cause__)):
                sys.stderr.write("stopped\n")
                raise SystemExit(130) from None
            message = _input_error(error)
            if message is None:
                raise
            program = os.path.basename(sys.argv[0]).replace("__main__.py", "dglke_frugal") or "dglke_frugal"
            sys.stderr.write(f"{program}: {one_line(str(message))}\n")  # a path may have a line end in it
            raise SystemExit(2) from None

    return main


def _input_error(error: BaseException) -> Optional[InputError]:
    if isinstance(error, UnicodeEncodeError):
        return unencodable(error)
    return error if isinstance(error, InputError) else shortage(error) or refused_path(error)


def _print_whatever_the_locale() -> None:
    """Print names that the terminal's encoding lacks with escapes, rather than end a command at its results."""
    if sys.stderr is None:  # closed by the caller: the exit code says it all
        sys.stderr = open(os.devnull, "w")
    codecs.register_error("frugal_escape", _escape)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and "utf" not in (stream.encoding or "").lower():
            stream.reconfigure(errors="frugal_escape")


def _escape(error):
    try:
        return codecs.lookup_error("surrogateescape")(error)  # bytes of a command line in another encoding
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)
