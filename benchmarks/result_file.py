"""The file that a benchmark leaves: its figures, and with them machine, date and the commit that was measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from dglke_frugal.files import replace_file

from . import machine

PUBLISHED = Path(__file__).resolve().parent / "results"
MACHINE = "machine"
WIDTH = 120


def result_file(text: str) -> Path:
    """The type of a benchmark's --json. A published result must be that of a commit, which is found out at the
    start."""
    path, commit = Path(text), machine.commit()
    if PUBLISHED in path.resolve().parents and (commit is None or commit.endswith("+")):
        why = "nobody knows the commit of this tree" if commit is None else f"this tree has changed since {commit[:-1]}"
        raise argparse.ArgumentTypeError(
            f"{text} is among the published results, but {why}; commit first, or write to another folder")
    return path


def parser(description: str, required: bool = False, kept: str = "") -> argparse.ArgumentParser:
    """Of a benchmark's flags, with --json. kept: what of a file that is there stays in it."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=result_file, required=required,
                      help="file for the results" + (f"; {kept} that are there already are kept" if kept else ""))
    return made


def read(path: Path) -> Dict[str, Any]:
    """Figures of earlier runs that a benchmark goes on from, with their machine; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(path: Optional[Path], figures: Mapping[str, Any]) -> None:
    """Write figures, to six digits, and machine; nothing without a path. Figures from a file (read()) name the commits
    of their earlier parts, too."""
    if path is None:
        return
    facts, earlier = machine.facts(), figures.get(MACHINE, {})
    commits = {*earlier.get("earlier_commits", ()), earlier.get("commit") or "unknown"} if earlier else set()
    if commits - {facts["commit"]}:
        facts["earlier_commits"] = sorted(commits - {facts["commit"]})
    rounded = json.loads(json.dumps({**figures, MACHINE: facts}), parse_float=lambda text: float(f"{float(text):.6g}"))
    with replace_file(path, "w") as file:
        file.write(in_lines(rounded) + "\n")


def in_lines(value: Any, depth: int = 0, before: int = 0) -> str:
    """JSON with as much in a line as fits. depth: of the value's line; before: the length of its name."""
    whole = json.dumps(value)
    if depth + before + len(whole) < WIDTH or not isinstance(value, (dict, list)):
        return whole
    named = [(f"{json.dumps(name)}: ", part) for name, part in value.items()] if isinstance(value, dict) else [
        ("", part) for part in value]
    lines: List[str] = []
    for name, part in named:
        text = name + in_lines(part, depth + 1, len(name))
        if lines and "\n" not in lines[-1] + text and len(lines[-1]) + len(text) < WIDTH - 2:
            lines[-1] += f", {text}"
        else:
            lines.append(" " * (depth + 1) + text)
    return whole[0] + "\n" + ",\n".join(lines) + "\n" + " " * depth + whole[-1]
