"""One trial: a training run in a process of its own, whose validations are read as it writes them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..files import replace_file
from ..training.checkpoint.run_folder import CHECKPOINTS, read_result

FLAGS_FILE = "flags.yaml"
OUTPUT_FILE = "output.txt"
_PR_SET_PDEATHSIG = 1


class TrialProcess:
    """A run that has been started in `folder`, and ends with this process however that ends.

    Attributes:
        validations: (step, value of the metric) of all so far.
    """

    def __init__(self, folder: Path, flags: Dict[str, Any], arguments: List[str], threads: int, metric: str = "MRR"):
        """flags: of the trial. arguments: further ones of dglke_train, which go before them. threads: of the CPU.
        metric: as metrics.jsonl names it."""
        import yaml

        shutil.rmtree(folder, ignore_errors=True)  # of a trial that was interrupted
        folder.mkdir(parents=True)
        with replace_file(folder / FLAGS_FILE, "w") as file:
            yaml.safe_dump(flags, file, sort_keys=False)
        self.folder, self.validations = folder, []
        self._metric = f"valid/{metric}"
        self._read, self._began = 0, time.monotonic()
        command = [sys.executable, "-m", "dglke_frugal", "train", "--config", str(folder / FLAGS_FILE), *arguments,
                   "--save_path", str(folder), "--no_save_emb"]
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(threads)}
        with open(folder / OUTPUT_FILE, "wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                             env=environment, start_new_session=True, preexec_fn=_die_with_parent)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    def new_validations(self) -> List[Tuple[int, float]]:
        """(step, value of the metric) of the validations since the last call."""
        found = []
        run = self._run_folder()
        if run is not None and (run / "metrics.jsonl").exists():
            with open(run / "metrics.jsonl", "rb") as file:
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n"):  # still being written
                        break
                    self._read += len(line)
                    logged = json.loads(line)
                    if logged.get(self._metric) is not None:
                        found.append((logged["step"], logged[self._metric]))
        self.validations += found
        return found

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def result(self) -> Optional[Dict[str, Any]]:
        """result.json of the run; None if it has not come so far."""
        run = self._run_folder()
        return None if run is None or self._process.returncode else read_result(run)

    def why_failed(self) -> str:
        """The last line that the run has printed."""
        if (self._process.returncode or 0) < 0:
            return f"it was ended by signal {-self._process.returncode}"
        lines = (self.folder / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].partition("dglke_frugal: ")[2] or lines[-1] if lines else (
            f"it ended with code {self._process.returncode} and without a message")

    def stop(self) -> None:
        """End the run, if it has not ended, and remove what takes space."""
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # of its ranks, too
            self._process.wait()
        run = self._run_folder()
        if run is not None:
            shutil.rmtree(run / CHECKPOINTS, ignore_errors=True)

    def _run_folder(self) -> Optional[Path]:
        return next((path.parent for path in self.folder.glob("*/config.yaml")), None)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
