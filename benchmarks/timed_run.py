"""One run of the training command for a benchmark: started, read line by line, ended when enough has been seen."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

INTERVAL = re.compile(r"\[proc (\d+)\]\[Train\] (\d+) steps take ([0-9.]+) seconds")


@dataclass(frozen=True)
class Measured:
    """steps_per_second: by interval of the log, the first one left out. stall_share: mean of metrics.jsonl, if any."""

    steps_per_second: List[float]
    start_seconds: float  # from the command to the end of the first interval
    stall_share: Optional[float] = None

    @property
    def median(self) -> float:
        return statistics.median(self.steps_per_second)


class _Training:
    """A run of the command, which SIGTERM ends before it ends this process: it has a session of its own, and would go
    on for ever. Whenever the signal comes: it is never an exception between two steps of starting or ending the run."""

    def __init__(self, command: List[str], environment: Dict[str, str]):
        self.process, self._stopped_by = None, 0
        self._before = signal.signal(signal.SIGTERM, self._stop)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=environment, start_new_session=True)
        if self._stopped_by:
            self._kill()

    def _stop(self, number, frame):
        self._stopped_by = number
        if self.process is not None:
            self._kill()

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        self._kill()
        self.process.communicate()
        signal.signal(signal.SIGTERM, self._before)
        if self._stopped_by:
            raise SystemExit(128 + self._stopped_by)


def run(flags: Sequence[str], threads: int, seconds: float, log_interval: int, processes: int = 1) -> Measured:
    """Train until the intervals after the first add up to `seconds`. With several processes, their rates are added."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dglke_frugal", "train", *flags, "--max_step", "100000000", "--no_save_emb",
                   "--log_interval", str(log_interval), "--save_path", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        began = time.perf_counter()
        training = _Training(command, environment)
        try:
            intervals, first, message = _watch(training.process, seconds, processes, began)
        finally:
            training.end()
        if not intervals:
            raise RuntimeError(f"{' '.join(command)} ended early:\n{message}")
        return Measured(intervals, first, _stall_share(Path(folder)))


def _watch(process, seconds, processes, began):
    seen: Dict[str, int] = {}
    intervals, total, first, message = [], 0.0, 0.0, ""
    for line in process.stdout:
        message = message[-4000:] + line
        found = INTERVAL.match(line)
        if not found:
            continue
        rank, steps, took = found[1], int(found[2]), float(found[3])
        seen[rank] = seen.get(rank, 0) + 1
        if seen[rank] == 1:
            first = first or time.perf_counter() - began
            continue
        intervals.append(processes * steps / max(took, 1e-9))
        total += took / processes
        if total >= seconds and len(intervals) >= 2 * processes:
            break
    return intervals, first, message


def _stall_share(folder: Path) -> Optional[float]:
    """The mean over the lines of metrics.jsonl but the first, which holds the start."""
    shares: List[float] = []
    for path in folder.glob("*/metrics.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        shares += [line["train/stall_share"] for line in lines if "train/loss" in line][1:]
    return statistics.mean(shares) if shares else None
