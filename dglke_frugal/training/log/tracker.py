"""Trackers of a run's numbers: a file of JSON lines or CSV, TensorBoard, Weights & Biases, MLflow, functions, or any
object with these three methods."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Protocol, Sequence

from ...arguments import plain
from ...errors import InputError
from ...extras import install_command
from ...files import replace_file


class Tracker(Protocol):
    """Receives the numbers of one run. Methods are called from one thread, between steps."""

    def start(self, config: Mapping[str, Any], step: int) -> None:
        """A run begins, or is resumed at `step` > 0. `config` is made of values that JSON can hold."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers as of the end of `step` steps, by names like "train/loss"."""

    def close(self) -> None:
        """Nothing follows; everything must be on its way."""


class JsonLinesTracker:
    """One JSON object per line, appended and written at once: {"step": 1000, "time": seconds, "train/loss": 0.5, ...}.

    A line {"step": ..., "event": "start", "config": {...}} begins a run. After a resume, steps that follow such a line
    replace what was logged for them before. A number that is not finite is written as null.
    """

    def __init__(self, path: os.PathLike):
        self.path = Path(path)
        self._file: Any = None

    def start(self, config: Mapping[str, Any], step: int) -> None:
        try:
            self._file = open(self.path, "ab+", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size:
                self._file.seek(size - 1)
                if self._file.read(1) != b"\n":  # killed in the middle of a line: the next must not be lost with it
                    self._file.write(b"\n")
        except OSError as error:
            raise _cannot_write(self.path, error) from error
        self._write({"step": step, "time": time.time(), "event": "start", "config": dict(config)})

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        numbers = {name: float(value) for name, value in metrics.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        self._write({"step": step, "time": time.time(), **finite})

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _write(self, line: Dict[str, Any]):
        text = json.dumps(line).encode() + b"\n"
        begin = self._file.seek(0, os.SEEK_END)
        try:
            while text:  # a disk that is full takes what it has room for, and is an error from then on
                text = text[self._file.write(text):]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(begin)
            raise _cannot_write(self.path, error) from error


class TensorBoardTracker:
    """Scalars for TensorBoard, in a folder of event files."""

    def __init__(self, folder: os.PathLike):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("tensorboard") from error
        self._create: Callable = lambda step: SummaryWriter(str(folder), purge_step=step or None)
        self._writer: Any = None

    def start(self, config: Mapping[str, Any], step: int) -> None:
        self._writer = self._create(step)
        self._writer.add_text("config", json.dumps(dict(config), indent=2), step)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, float(value), step)
        self._writer.flush()

    def close(self) -> None:
        if self._writer:
            self._writer.close()


class WandbTracker:
    """A run of Weights & Biases; a resumed run goes on under its id, which is kept in the run's folder."""

    def __init__(self, folder: os.PathLike):
        try:
            import wandb
        except ImportError as error:
            raise _missing("wandb") from error
        self._wandb, self._folder = wandb, Path(folder)
        self._run: Any = None

    def start(self, config: Mapping[str, Any], step: int) -> None:
        id_file = self._folder / "wandb_id"
        run_id: Optional[str] = id_file.read_text(encoding="utf-8") if step and id_file.exists() else None
        self._run = self._wandb.init(project="dglke_frugal", dir=str(self._folder), config=dict(config), id=run_id,
                                     resume="allow")
        id_file.write_text(self._run.id, encoding="utf-8")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log({name: float(value) for name, value in metrics.items()}, step=step)

    def close(self) -> None:
        if self._run:
            self._run.finish()


class MlflowTracker:
    """A run of MLflow; a resumed run goes on under its id, which is kept in the run's folder.

    Server and experiment are those of MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME. MLflow has no @ in names, so
    HITS@10 is HITS_at_10.
    """

    def __init__(self, folder: os.PathLike):
        try:
            import mlflow
        except ImportError as error:
            raise _missing("mlflow") from error
        self._mlflow, self._folder = mlflow, Path(folder)
        self._run: Any = None

    def start(self, config: Mapping[str, Any], step: int) -> None:
        id_file = self._folder / "mlflow_id"
        run_id: Optional[str] = id_file.read_text(encoding="utf-8") if step and id_file.exists() else None
        self._run = self._mlflow.start_run(run_id=run_id, run_name=None if run_id else self._folder.name, nested=True)
        id_file.write_text(self._run.info.run_id, encoding="utf-8")
        if run_id is None:  # parameters are written once
            self._mlflow.log_params({name: "" if value is None else str(value) for name, value in config.items()})

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics({name.replace("@", "_at_"): float(value) for name, value in metrics.items()},
                                 step=step)

    def close(self) -> None:
        if self._run:
            self._mlflow.end_run()
            self._run = None


class CsvTracker:
    """metrics.csv: a row for each time that numbers come, with step, time and a column for each name.

    The file is written anew when a name is new. After a resume, rows of later steps are left out.
    """

    def __init__(self, path: os.PathLike):
        self.path = Path(path)
        self._names = ["step", "time"]
        self._rows: List[Dict[str, Any]] = []

    def start(self, config: Mapping[str, Any], step: int) -> None:
        if step and self.path.is_file():
            try:
                with open(self.path, encoding="utf-8", newline="") as file:
                    reader = csv.DictReader(file)
                    self._names = [*(reader.fieldnames or self._names)]
                    # By these names: a line that somebody has changed may have more.
                    self._rows = [{name: row[name] for name in self._names} for row in reader
                                  if (row.get("step") or "").isdigit() and int(row["step"]) <= step]
            except (OSError, ValueError, csv.Error) as error:
                raise InputError(f"cannot read {self.path}, to which the run adds its metrics: {error}; remove it, and "
                                 "a new one begins") from error
        self._write_anew()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        row = {"step": step, "time": time.time(), **{name: float(value) for name, value in metrics.items()}}
        self._rows.append(row)
        new = [name for name in row if name not in self._names]
        self._names += new
        if new:
            self._write_anew()
            return
        try:
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._names).writerow(row)
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def close(self) -> None:
        self._rows = []

    def _write_anew(self):
        with replace_file(self.path, "w") as file:
            writer = csv.DictWriter(file, self._names, lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(self._rows)


@dataclass(frozen=True)
class Validation:
    """The argument of a callback of train().

    Attributes:
        step: how many steps are done.
        metrics: MRR, MR, HITS@1, HITS@3 and HITS@10 of the validation triples, by name.
        folder: of the run.
    """

    step: int
    metrics: Dict[str, float]
    folder: Path


class CallbackTracker:
    """Calls functions with each validation.

    Attributes:
        wants_stop: whether one of them has returned True.
    """

    def __init__(self, folder: os.PathLike, callbacks: Sequence[Callable[[Validation], Optional[bool]]],
                 around: Callable[[], ContextManager] = contextlib.nullcontext):
        """around: makes a context that the functions run in."""
        self._folder, self._callbacks, self._around = Path(folder), callbacks, around
        self.wants_stop = False

    def start(self, config: Mapping[str, Any], step: int) -> None:
        """Nothing: callbacks are of validations."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        found = {name.partition("/")[2]: value for name, value in metrics.items() if name.startswith("valid/")}
        if not found:
            return
        with self._around():
            for call in self._callbacks:
                self.wants_stop |= plain(call(Validation(step, dict(found), self._folder))) is True

    def close(self) -> None:
        """Nothing is held."""


class Trackers:
    """Several trackers as one."""

    def __init__(self, trackers: Sequence[Tracker]):
        self._trackers = list(trackers)

    @property
    def wants_stop(self) -> bool:
        """Whether one of them wants the training to stop."""
        return any(getattr(tracker, "wants_stop", False) for tracker in self._trackers)

    def start(self, config: Mapping[str, Any], step: int) -> None:
        for tracker in self._trackers:
            tracker.start(config, step)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for tracker in self._trackers:
            tracker.log(metrics, step)

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()


MakeTracker = Callable[[Path], Tracker]  # from the run's folder

OPTIONAL: Dict[str, MakeTracker] = {"tensorboard": lambda folder: TensorBoardTracker(folder / "tensorboard"),
                                    "wandb": WandbTracker, "mlflow": MlflowTracker,
                                    "csv": lambda folder: CsvTracker(folder / "metrics.csv")}


def make_tracker(run_folder: os.PathLike, names: Sequence[str] = (), more: Sequence[MakeTracker] = ()) -> Trackers:
    """metrics.jsonl in the run's folder, the optional trackers with these names, and the trackers that `more` makes.

    Raises InputError for an unknown name or one whose package is not installed.
    """
    folder = Path(run_folder)
    unknown = [name for name in names if name not in OPTIONAL]
    if unknown:
        raise InputError(f"there is no tracker {unknown[0]!r}; choose from {', '.join(OPTIONAL)}")
    return Trackers([JsonLinesTracker(folder / "metrics.jsonl"), *(OPTIONAL[name](folder) for name in names),
                     *(make(folder) for make in more)])


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror}; free some space, or choose a folder that is writable")


def _missing(package: str) -> InputError:
    return InputError(f"the {package} tracker needs a package that is not installed: {install_command(package)}")
