"""Runs one step of `make` on one line: what it does, how far a compilation is, how many seconds it took.

    python packaging/step.py "Compiling the extension" LOG COMMAND...

The command's output goes to the file LOG, and its last lines to the screen if it fails.
"""
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

SHOWN_LINES = 40  # of a log, after a failure
_DONE_OF_ALL = re.compile(r"\[(\d+)/(\d+)\]")  # as ninja counts


def run(text, log, command):
    """The command's exit code."""
    begin = time.monotonic()
    is_terminal = sys.stdout.isatty()
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = [""]

    def copy(lines, file):
        for line in lines:
            file.write(line)
            found = _DONE_OF_ALL.search(line)
            if found:
                progress[0] = " [{}/{}]".format(*found.groups())

    def show(end):
        seconds = "{:.0f} s".format(time.monotonic() - begin)
        print("\r{} ...{} {}".format(text, progress[0], seconds), end=end, flush=True)

    if not is_terminal:
        print(text, "...", end="", flush=True)
    with open(str(log), "w", encoding="utf-8", errors="replace") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   encoding="utf-8", errors="replace")
        reader = threading.Thread(target=copy, args=(process.stdout, file))
        reader.start()
        while reader.is_alive():
            reader.join(1.0)
            if is_terminal and reader.is_alive():
                show("")
        code = process.wait()
    progress[0] = ""
    if is_terminal:
        show("\033[K\n")  # without what a longer line has left
    else:
        print(" {:.0f} s".format(time.monotonic() - begin), flush=True)
    if code != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        sys.stderr.write("\n".join(lines[-SHOWN_LINES:]) + "\n\n")
        sys.stderr.write("{} failed; all of its output is in {}\n".format(text, log))
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
