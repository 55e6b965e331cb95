"""The contents of a run's folder: flags, curves, result."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..errors import InputError
from ..files import check_kinds, read_json
from ..training.checkpoint.run_folder import read_result

METRICS_FILE = "metrics.jsonl"
EVALUATION_FILE = "evaluation.json"  # what dglke_eval --json wrote into the folder, if anything
_OF_RELATION = {"relation": int, "side": str, "ranks": float, "MRR": float, "HITS@10": float}  # that are read
NOT_METRICS = ("step", "time", "event", "config")


@dataclass(frozen=True)
class RunLog:
    """One run.

    Attributes:
        folder, name: where it is, and what it is called in legends.
        flags: by DGL-KE's names; empty if the run did not say.
        curves: (step, value) pairs in order of the step, by the names that training/log/report.py gives.
        result: result.json; empty if the run is not finished.
        began: seconds since 1970 at which it was started first; None if it did not say.
        by_relation: rows of evaluation/breakdown.py as dictionaries; empty if there is no evaluation.json with them.
    """

    folder: Path
    name: str
    flags: Dict[str, Any] = field(default_factory=dict)
    curves: Dict[str, List[Tuple[int, float]]] = field(default_factory=dict)
    result: Dict[str, Any] = field(default_factory=dict)
    by_relation: List[Dict[str, Any]] = field(default_factory=list)
    began: Optional[float] = None

    @classmethod
    def read(cls, folder) -> "RunLog":
        """Read a run's folder. Raises InputError if it is none, or if nothing in it can be read."""
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder; give the folder of a run, as the training printed it")
        flags, curves, began = _read_metrics(folder / METRICS_FILE)
        name = folder.resolve().name
        return cls(folder, name, flags, curves, read_result(folder) or {}, _read_breakdown(folder), began)

    def metric(self, name: str) -> List[Tuple[int, float]]:
        """The curve of a metric; empty where the run has none."""
        return self.curves.get(name, [])


def _read_metrics(path: Path):
    """Flags, curves and the time of the first start. Lines that a kill cut short are left out; steps after a resume
    replace those from before it."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        raise InputError(
            f"{path.parent} has no {path.name}, so it is no run of the native trainer; give the folder of one"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give the folder of a run") from error
    flags: Dict[str, Any] = {}
    curves: Dict[str, Dict[int, float]] = {}
    began: Optional[float] = None
    found = False
    for line in lines:
        try:
            entry = json.loads(line)
            step = int(entry["step"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
        found = True
        if entry.get("event") == "start":
            flags = entry.get("config") if isinstance(entry.get("config"), dict) else flags
            began = entry.get("time") if began is None and isinstance(entry.get("time"), float) else began
            for curve in curves.values():
                for later in [at for at in curve if at > step]:
                    del curve[later]
        for name, value in entry.items():
            if name not in NOT_METRICS and isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(name, {})[step] = float(value)
    if not found:
        raise InputError(f"{path} holds no line of metrics; it is empty or damaged, so train the run again")
    return flags, {name: sorted(curve.items()) for name, curve in curves.items() if curve}, began


def _read_breakdown(folder: Path) -> List[Dict[str, Any]]:
    path = folder / EVALUATION_FILE
    remedy = "write it again with dglke_eval --breakdown --json"
    try:
        content = read_json(path, remedy)
    except FileNotFoundError:
        return []
    check_kinds(path, content, {"by_relation": [_OF_RELATION]}, remedy)
    return [row for row in content.get("by_relation") or [] if row and not {"ranks", "MRR", "HITS@10"} - {
        key for key, value in row.items() if value is not None}]


def unique_names(runs: List[RunLog]) -> List[str]:
    """Names for a legend: the folders' own, with as much of the path before them as tells them apart."""
    paths = [run.folder.resolve().parts for run in runs]
    for length in range(1, max(map(len, paths)) + 1):
        names = [str(Path(*path[-length:])) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    return [f"{name} ({names[:place].count(name) + 1})" if names.count(name) > 1 else name
            for place, name in enumerate(names)]
