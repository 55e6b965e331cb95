"""A rank's process as rank 0 starts and watches it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import List

PACKAGES = str(Path(__file__).resolve().parents[3])  # the folder that holds this package
WORDS_SECONDS = 1.0  # that the last words of an ended process may take to come


class RankChild:
    """Runs this very package as rank `rank`. What it writes to stderr goes on to ours; its last line is kept. What it
    prints goes where this process prints, be that a file or an object of Python's.

    process: the subprocess.Popen. connection: the child's end of the socket to rank 0.
    """

    def __init__(self, connection: Connection, rank: int):
        # Not -m: that puts the current folder first on the path, and with it any other dglke_frugal that lies there.
        code = (f"import sys; sys.path[:] = {_path()!r}; "
                f"from {__package__.rpartition('.')[0]}.parallel import rank_process; rank_process.main()")
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(connection.fileno()), str(rank)], pass_fds=[connection.fileno()],
            stdin=subprocess.DEVNULL, stdout=None if _is_file(sys.stdout) else subprocess.PIPE, stderr=subprocess.PIPE)
        self._last_line = ""
        self._printed = threading.Thread(target=self._print, args=(sys.stdout,), daemon=True)
        self._relay = threading.Thread(target=self._pass_on, daemon=True)
        try:
            self._relay.start()
            if self.process.stdout is not None:
                self._printed.start()
        except BaseException:  # there is no thread left
            self.process.kill()
            self.process.wait()
            raise

    def _pass_on(self) -> None:
        with self.process.stderr as lines:
            for line in lines:
                self._last_line = line.decode(errors="replace").strip() or self._last_line
                with contextlib.suppress(OSError):  # nobody reads ours
                    os.write(2, line if line.endswith(b"\n") else line + b"\n")

    def _print(self, output) -> None:
        with self.process.stdout as lines:
            for line in lines:
                output.write(line.decode(errors="replace"))

    def end(self) -> str:
        """How the process has ended and what it said last, as the end of a sentence."""
        code = self.process.wait()
        self._relay.join(WORDS_SECONDS)
        how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        return f"{how}; it said last: {self._last_line}" if self._last_line else how


def _is_file(stream) -> bool:
    try:
        stream.fileno()
    except (OSError, AttributeError, ValueError):
        return False
    return True


def _path() -> List[str]:
    """sys.path, on which this package is found first."""
    path = [entry for entry in sys.path if entry]
    return path if PACKAGES in path else [PACKAGES, *path]
