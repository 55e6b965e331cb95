"""The file that a benchmark leaves: its figures, and with them machine, date and the commit that was measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Dict, Mapping

from dglke_frugal.files import replace_file

from . import machine

PUBLISHED = Path(__file__).resolve().parent / "results"
MACHINE = "machine"


def result_file(text: str) -> Path:
    """The type of a benchmark's --json. A published result must be that of a commit, which is found out at the
    start."""
    path, commit = Path(text), machine.commit()
    if PUBLISHED in path.resolve().parents and (commit is None or commit.endswith("+")):
        why = "nobody knows the commit of this tree" if commit is None else f"this tree has changed since {commit[:-1]}"
        raise argparse.ArgumentTypeError(
            f"{text} is among the published results, but {why}; commit first, or write to another folder"
        )
    return path


def read(path: Path) -> Dict[str, Any]:
    """Figures of earlier runs that a benchmark goes on from, with their machine; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(path: Path, figures: Mapping[str, Any]) -> None:
    """Write figures and machine. Figures from a file (read()) name the commits of their earlier parts, too."""
    facts, earlier = machine.facts(), figures.get(MACHINE, {})
    commits = {*earlier.get("earlier_commits", ()), earlier.get("commit") or "unknown"} if earlier else set()
    if commits - {facts["commit"]}:
        facts["earlier_commits"] = sorted(commits - {facts["commit"]})
    with replace_file(path, "w") as file:
        file.write(json.dumps({**figures, MACHINE: facts}, indent=1) + "\n")
