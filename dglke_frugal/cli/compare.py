"""`dglke_frugal compare`: the results of runs, and the flags in which they differ, as a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Dict, List

from .errors import reports_input_errors
from .tool_flags import Parser

_BEGINNINGS = {"csv": rb"run,", "markdown": rb"\| run \|", "json": rb'\[\s*\{\s*"run"', "table": rb"run  +"}


def own_flags() -> Parser:
    """The command's flags."""
    parser = Parser(prog="dglke_frugal compare", description="Put the results of runs, and the flags in which they "
                    "differ, side by side; runs that have not ended are there with what they have.")
    parser.add_argument("run", nargs="+", help="folder of a run")
    parser.add_argument("--format", choices=list(_BEGINNINGS), default="table",
                        help="table: text in columns; csv and json have all digits (%(default)s)")
    parser.add_argument("--out", type=Path, help="file to write instead of printing")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    options = own_flags().parse_args(argv)
    from ..files import check_output, replace_file
    from ..report.run_log import RunLog

    columns = compared([RunLog.read(folder) for folder in options.run])
    text = {"csv": _csv, "markdown": _markdown, "json": _json, "table": _table}[options.format](columns)
    if options.out is None:
        print(text)
        return
    check_output(options.out, _BEGINNINGS[options.format])
    with replace_file(options.out, "w") as file:
        file.write(text + "\n")
    print(f"Saved {options.out}")


def compared(runs) -> Dict[str, List[Any]]:
    """The columns of the table of runs (report/comparison.py): a value for each run, None where it has none. Columns in
    which no run has a value are left out."""
    from ..report.comparison import CIRCUMSTANCES, RESULTS, flag_columns
    from ..report.run_log import unique_names

    columns: Dict[str, List[Any]] = {"run": list(unique_names(runs))}
    for column in (*RESULTS, *CIRCUMSTANCES, *flag_columns(runs)):
        values = [column.value(run) for run in runs]
        if any(value is not None for value in values):
            columns[_heading(column)] = values
    return columns


def _heading(column) -> str:
    return f"HITS{column.heading}" if column.heading.startswith("@") else column.heading


def _texts(columns: Dict[str, List[Any]]) -> Dict[str, List[str]]:
    """The values as people read them."""
    from ..report.comparison import CIRCUMSTANCES, RESULTS

    forms = {_heading(column): column.form for column in (*RESULTS, *CIRCUMSTANCES)}
    return {name: ["" if value is None else forms.get(name, "{}").format(value) for value in values]
            for name, values in columns.items()}


def _table(columns) -> str:
    texts = _texts(columns)
    widths = {name: max(map(len, (name, *values))) for name, values in texts.items()}
    rows = [texts.keys(), *zip(*texts.values())]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths.values())).rstrip() for row in rows)


def _markdown(columns) -> str:
    texts = _texts(columns)
    rows = [texts.keys(), ["---"] * len(texts), *zip(*texts.values())]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def _csv(columns) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return text.getvalue().rstrip("\n")


def _json(columns) -> str:
    return json.dumps([dict(zip(columns, row)) for row in zip(*columns.values())], indent=2)
