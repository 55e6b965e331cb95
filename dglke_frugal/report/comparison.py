"""The table of runs: results, where and when they were got, and the flags in which the runs differ."""
from __future__ import annotations

import datetime
from html import escape
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .html import cell, paragraph, section, table
from .run_log import RunLog

FLAGS_AT_ONCE = 8  # in a table; more would not fit side by side
NOT_COMPARED = ("seed", "save_path")  # the seed has a column of its own


class Column(NamedTuple):
    """best: max or min if one value is better than others."""

    heading: str
    form: str
    value: Callable[[RunLog], Any]
    best: Optional[Callable] = None


def dig(content: Any, *path: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _result(*path: str) -> Callable[[RunLog], Any]:
    return lambda run: dig(run.result, *path)


def _steps(run: RunLog) -> Optional[int]:
    return run.result.get("steps", max((curve[-1][0] for curve in run.curves.values()), default=None))


def _rate(run: RunLog) -> Optional[float]:
    rate = dig(run.result, "training", "triples_per_second")
    return None if rate is None else rate * len(run.result.get("ranks") or [0])  # result.json tells the rate of one


def _best_validation(run: RunLog) -> Optional[float]:
    return max((value for _, value in run.metric("valid/MRR")), default=None)


def _memory(run: RunLog) -> Optional[float]:
    peak = dig(run.result, "peak_host_bytes")
    return None if peak is None else peak / 2**30


def _date(run: RunLog) -> Optional[str]:
    return None if run.began is None else datetime.datetime.fromtimestamp(run.began).strftime("%Y-%m-%d %H:%M")


def _hardware(run: RunLog) -> Optional[str]:
    found = dig(run.result, "hardware")
    if not isinstance(found, dict):
        return None
    gpus = found.get("gpus") or []
    if gpus:
        return f"{len(gpus)} x {gpus[0]}" if len(gpus) > 1 else str(gpus[0])
    return f"{found.get('cores')} cores, {found.get('processor')}"


# The first columns stay in sight on a narrow screen.
RESULTS = (Column("test MRR", "{:.4f}", _result("test", "MRR"), max),
           Column("HITS@1", "{:.4f}", _result("test", "HITS@1"), max),
           Column("@3", "{:.4f}", _result("test", "HITS@3"), max),
           Column("@10", "{:.4f}", _result("test", "HITS@10"), max),
           Column("MR", "{:,.1f}", _result("test", "MR"), min),
           Column("best valid MRR", "{:.4f}", _best_validation, max),
           Column("steps", "{:,}", _steps),
           Column("training (s)", "{:,.1f}", _result("seconds", "training"), min),
           Column("triples/s", "{:,.0f}", _rate, max))
CIRCUMSTANCES = (Column("stalled", "{:.1%}", _result("training", "stall_share"), min),
                 Column("cache hits", "{:.1%}", _result("training", "store", "hit_share"), max),
                 Column("peak memory of a process (GiB)", "{:.2f}", _memory, min),
                 Column("seed", "{}", lambda run: run.result.get("seed", run.flags.get("seed"))),
                 Column("hardware", "{}", _hardware),
                 Column("date", "{}", _date))


def differing_flags(runs: Sequence[RunLog]) -> List[str]:
    """Names of the flags that are not the same in all runs, without the ones that say nothing about a result."""
    names = dict.fromkeys(key for run in runs for key in run.flags if key not in NOT_COMPARED)
    return [name for name in names if len({repr(run.flags.get(name)) for run in runs}) > 1]


def flag_columns(runs: Sequence[RunLog]) -> List[Column]:
    """A column for each flag that differs."""
    return [Column(name, "{}", lambda run, name=name: _flag(run.flags.get(name))) for name in differing_flags(runs)]


def comparison(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    """The section "Result": of one run each value with its name; of several, tables with a row for each run.

    The best of a column is bold.
    """
    if len(runs) == 1:
        content, note = _values(runs[0]), ""
    else:
        flags = flag_columns(runs)
        parts = [RESULTS, CIRCUMSTANCES, *(flags[begin : begin + FLAGS_AT_ONCE]
                                           for begin in range(0, len(flags), FLAGS_AT_ONCE))]
        content = "".join(_table(runs, names, part, "narrow wrapped") for part in parts)
        note = "The best of a column is bold; click on a heading to sort by it."
    unfinished = [name for run, name in zip(runs, names) if not run.result]
    end = paragraph(f"Not finished: {escape(', '.join(unfinished))}." if unfinished else "")
    return section("Result", "", content + end, note)


def _values(run: RunLog) -> str:
    shown = [(column, column.value(run)) for column in (*RESULTS, *CIRCUMSTANCES)]
    return '<dl class="values-of-run">' + "".join(
        f"<div><dt>{escape(column.heading)}</dt><dd>{escape(column.form.format(value))}</dd></div>"
        for column, value in shown if value is not None) + "</dl>"


def _table(runs: Sequence[RunLog], names: Sequence[str], columns: Sequence[Column], kind: str) -> str:
    best: Dict[str, Any] = {}
    for column in columns:
        values = [value for value in map(column.value, runs) if value is not None]
        if column.best and len(set(values)) > 1:
            best[column.heading] = column.best(values)
    rows = []
    for run, name in zip(runs, names):
        shown = [(column, column.value(run)) for column in columns]
        cells = [cell(value, column.form, value is not None and value == best.get(column.heading))
                 for column, value in shown]
        rows.append(f"<tr><td>{escape(name)}</td>{''.join(cells)}</tr>")
    return table(["run", *(column.heading for column in columns)], rows, kind, sortable=True)


def _flag(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def all_flags(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    """All flags of each run, folded."""
    parts = []
    for run, name in zip(runs, names):
        text = "\n".join(f"{key}: {value}" for key, value in run.flags.items())
        parts.append(
            f"<details><summary>All flags of {escape(name)}</summary><pre>{escape(text) or 'unknown'}</pre></details>")
    return section("Flags", "", "".join(parts))
