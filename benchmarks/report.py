"""Collects results of the benchmarks into docs/performance.md, one page that is read, and docs/performance/, a page each.

    python -m benchmarks.train --json benchmarks/results/train.json       # and so on, each benchmark
    python -m benchmarks.report benchmarks/results/*.json --out docs/performance.md

A file is named after its benchmark; what follows a hyphen tells several machines or settings apart (train-h200.json).
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import textwrap
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from dglke_frugal.files import replace_file

from . import column_model, rank_model, targets
from .result_file import MACHINE

HERE = Path(__file__).parent
MANY = 8  # numbers of a list that are written out; of more, there are the least, the middle and the largest
NO_CLEAN_ORIGIN = (
    "**No clean origin:** these figures are of a tree with changes that were not committed; they are to be measured "
    "again."
)
ABOUT = (
    "Written by `python -m benchmarks.report benchmarks/results/*.json --out docs/performance.md`: every figure is in "
    "the JSON file named with it, and was put there by the command on its page. Rates are medians, of several runs or of "
    "the intervals of one; peers ran on the same machine in the same run. DGL-KE's published figures are in the recipes."
)


def has_clean_origin(facts: Mapping[str, Any]) -> bool:
    """Whether all of a result was measured on commits that can be had again. facts: its machine."""
    commits = [facts.get("commit"), *facts.get("earlier_commits", ())]
    return all(commit and not commit.endswith(("+", "unknown")) for commit in commits)


def benchmarks() -> Dict[str, Tuple[str, str]]:
    """First sentence and command of each benchmark, from its docstring, by name."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        command = re.search(
            rf"^ *(?:.*: )?((?:\w+=\S+ )*python -m benchmarks\.{path.stem}\b.*--json.*)$", text, re.MULTILINE
        )
        if command and path.stem != "report":
            found[path.stem] = (re.split(r": python -m|\.\s|\n", text)[0].rstrip(".:"), command[1].strip())
    return found


def number(value: Any) -> str:
    """A value as a table shows it: four digits that count, thousands apart."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).replace("|", "\\|").replace("\n", " ")
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _is_simple(value: Any) -> bool:
    return (
        not isinstance(value, (Mapping, list))
        or isinstance(value, list)
        and not any(isinstance(v, (Mapping, list)) for v in value)
    )


def cell(value: Any) -> str:
    """A number, or a list of them in short."""
    if not isinstance(value, list):
        return number(value)
    if len(value) <= MANY or not all(isinstance(item, (int, float)) for item in value):
        return ", ".join(map(number, value))
    ordered = sorted(value)
    return (
        f"{number(ordered[0])} to {number(ordered[-1])}, median {number(ordered[len(ordered) // 2])} of {len(ordered)}"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def tables(value: Any, name: str = "") -> List[str]:
    """A result as Markdown tables: records with the same keys side by side, single values one below the other."""
    if isinstance(value, list):
        value = {str(place): item for place, item in enumerate(value)}
    records = list(value.values())
    if len(records) > 1 and all(
        isinstance(record, Mapping) and all(map(_is_simple, record.values())) for record in records
    ):
        keys = list(dict.fromkeys(key for record in records for key in record))
        if sum(len(record) for record in records) > len(keys):  # they share some
            rows = [[key, *(cell(record[k]) if k in record else "" for k in keys)] for key, record in value.items()]
            return [_caption(name) + table(["", *keys], rows)]
    simple = [(key, item) for key, item in value.items() if _is_simple(item)]
    found = (
        [_caption(name) + table(["key", "value"], [[f"`{key}`", cell(item)] for key, item in simple])] if simple else []
    )
    for key, item in value.items():
        if not _is_simple(item):
            found += tables(item, f"{name}.{key}" if name else str(key))
    return found


def _caption(name: str) -> str:
    return f"`{name}`\n\n" if name else ""


def machine_text(facts: Mapping[str, Any]) -> str:
    """One sentence of a result's machine."""
    if not facts:
        return "Machine and date were not recorded."
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    gpu = facts.get("gpu") or "no GPU"
    earlier = "".join(f" (parts of it: {commit})" for commit in facts.get("earlier_commits", ()))
    sentence = (
        f"{facts.get('date')}, commit {facts.get('commit')}{earlier}: {facts.get('processor')}, {facts.get('cores')} "
        f"cores, {facts.get('memory_gib')} GiB, {gpu}, {facts.get('system')}; {versions}."
    )
    return sentence if has_clean_origin(facts) else f"{sentence} {NO_CLEAN_ORIGIN}"


def _on_paper(result: Mapping[str, Any]) -> List[str]:
    """What the rates of benchmarks.ranks mean for several GPUs."""
    if column_model.is_measured(result):
        model, checks = column_model, []
    elif rank_model.is_measured(result):
        model, checks = rank_model, rank_model.check(result)
    else:
        return []
    heads, rows = model.rows(result)
    return ["### Several GPUs, on paper", model.ABOUT.rstrip(), table(heads, [list(map(cell, row)) for row in rows]),
            *checks]


def benchmark_page(file: str, result: Mapping[str, Any], title: str, command: str) -> str:
    """The page of one result: what it measures, the command, the machine, all figures."""
    name = Path(file).stem
    return _text([
        f"# {name}",
        f"{title}. Source: `benchmarks/results/{Path(file).name}`.",
        f"    {command}",
        textwrap.fill(machine_text(result.get(MACHINE, {})), 120),
        *tables({key: value for key, value in result.items() if key != MACHINE}),
        *(_on_paper(result) if name.split("-")[0] == "ranks" else ()),
    ])


def pages(results: Mapping[str, Mapping[str, Any]], folder: str = "performance") -> Dict[str, str]:
    """The summary, by the name "", and a page for each result, by its name. results: content of the files by their
    names. folder: where the pages lie, as seen from the summary."""
    known = benchmarks()
    found, listed = {}, []
    for file, result in sorted(results.items()):
        stem = Path(file).stem
        name = stem.split("-")[0]
        title, command = known.get(name, (name, f"python -m benchmarks.{name} --json FILE"))
        found[stem] = benchmark_page(file, result, title, command)
        facts = result.get(MACHINE, {})
        listed.append([f"[{stem}]({folder}/{stem}.md)", title.replace("|", "\\|"), facts.get("gpu") or "no GPU",
                       str(facts.get("date", "-"))])
    parts = ["# Performance", textwrap.fill(ABOUT, 120),
             "From a measured rate to eight GPUs: [ranks_measured.md](ranks_measured.md)."]
    if reached := targets.rows(results):
        heads = ["what", "key", "figure", "bar", "reached", "file", "clean origin"]
        rows = [[*map(cell, row), "yes" if has_clean_origin(results[row[-1].strip("`")].get(MACHINE, {})) else "**no**"]
                for row in reached]
        parts += ["## At a glance", table(heads, rows)]
    parts += ["## All figures", table(["page", "what", "GPU", "date"], listed)] if listed else []
    missing = [name for name in known if name not in {Path(file).stem.split("-")[0] for file in results}]
    if missing:
        rows = [[f"`{known[name][1]}`".replace("|", "\\|"), known[name][0]] for name in missing]
        parts += ["## Not measured yet", table(["command", "what"], rows)]
    return {"": _text(parts), **found}


def _text(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def write(out: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """The summary into `out`, and a page for each result into the folder beside it that has its name."""
    folder = out.with_suffix("")
    folder.mkdir(exist_ok=True)
    written = pages(results, folder.name)
    for old in folder.glob("*.md"):
        if old.stem not in written:
            old.unlink()
    for name, text in written.items():
        with replace_file(folder / f"{name}.md" if name else out, "w") as file:
            file.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="results; none make a page that says what is missing")
    parser.add_argument("--out", type=Path,
                        help="file for the summary; the pages go into a folder of its name (default: print all)")
    options = parser.parse_args()
    results = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in options.files}
    if options.out is None:
        print("\n".join(pages(results).values()), end="")
        return
    write(options.out, results)
    print(f"Saved {options.out} and {options.out.with_suffix('')}/")


if __name__ == "__main__":
    main()
