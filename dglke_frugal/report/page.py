"""The HTML page of a report. It carries its style and its pictures with it and asks for nothing from outside."""

from __future__ import annotations

from html import escape
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..inference.run import Run
from .charts import Chart, charts, short_label
from .entity_map import ColouredMap, EntityMap, map_entities, namer
from .run_log import EVALUATION_FILE, RunLog, unique_names
from .style import STYLE
from .svg import legend, line_chart, scatter

RELATIONS_SHOWN = 40


def make_page(runs: Sequence[RunLog]) -> str:
    """The report of one or more runs as the text of an HTML file."""
    names = unique_names(list(runs))
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)} - dglke_frugal report</title><style>{STYLE}</style></head><body><main>",
        f'<h1>{escape(title)}</h1><p class="note">{escape(_subtitle(runs))}</p>',
        _summary(runs, names),
    ]
    found = charts(runs, names)
    if found:
        parts.append('<h2>Curves</h2><div class="grid2">' + "".join(map(_chart_figure, found)) + "</div>")
    for run, name in zip(runs, names):
        parts += [
            _map_section(map_entities(run.folder, run.flags), run, name if len(runs) > 1 else ""),
            _relations_section(run, name if len(runs) > 1 else ""),
        ]
    parts += [_flags(runs, names), "</main></body></html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _subtitle(runs: Sequence[RunLog]) -> str:
    said = {
        "{} on {}, dim {}".format(*(run.flags.get(name, "?") for name in ("model_name", "dataset", "hidden_dim")))
        for run in runs
    }
    return "; ".join(sorted(said))


def _cell(value: Any, form: str = "{}") -> str:
    return f"<td>{form.format(value)}</td>" if value is not None else '<td class="note">-</td>'


def _dig(content: Any, *path: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _summary_cells(run: RunLog) -> Dict[str, str]:
    """Table cells by heading."""
    result = run.result
    last = max((curve[-1][0] for curve in run.curves.values()), default=None)
    best = max((value for _, value in run.metric("valid/MRR")), default=None)
    rate, peak = _dig(result, "training", "triples_per_second"), _dig(result, "peak_host_bytes")
    processes = len(result.get("ranks") or [0])  # result.json tells the rate of one
    return {
        "steps": _cell(result.get("steps", last), "{:,}"),
        "training": _cell(_dig(result, "seconds", "training"), "{:,.1f} s"),
        "triples/s": _cell(None if rate is None else rate * processes, "{:,.0f}"),
        "stalled": _cell(_dig(result, "training", "stall_share"), "{:.1%}"),
        "cache hits": _cell(_dig(result, "training", "store", "hit_share"), "{:.1%}"),
        "best valid MRR": _cell(best, "{:.4f}"),
        "test MRR": _cell(_dig(result, "test", "MRR"), "{:.4f}"),
        "MR": _cell(_dig(result, "test", "MR"), "{:,.1f}"),
        "HITS@1": _cell(_dig(result, "test", "HITS@1"), "{:.4f}"),
        "@3": _cell(_dig(result, "test", "HITS@3"), "{:.4f}"),
        "@10": _cell(_dig(result, "test", "HITS@10"), "{:.4f}"),
        "peak memory": _cell(None if peak is None else peak / 2**30, "{:.2f} GiB"),
    }


def _summary(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    cells = [_summary_cells(run) for run in runs]
    head = "".join(f"<th>{text}</th>" for text in ("run", *cells[0]))
    rows = [f"<tr><td>{escape(name)}</td>{''.join(row.values())}</tr>" for name, row in zip(names, cells)]
    table = f'<table class="narrow"><tr>{head}</tr>{"".join(rows)}</table>'
    unfinished = [name for run, name in zip(runs, names) if not run.result]
    note = f'<p class="note">Not finished: {escape(", ".join(unfinished))}.</p>' if unfinished else ""
    return f'<h2>Result</h2><div class="scroll">{table}</div>{note}'


def _chart_figure(chart: Chart) -> str:
    key = legend([(curve.label, curve.colour) for curve in chart.curves], [curve.dash for curve in chart.curves])
    head = f'<h3>{escape(chart.title)}</h3><p class="note">{escape(chart.note)}</p>'
    return f"<figure>{head}{line_chart(chart)}{key}</figure>"


def _map_section(found: Optional[EntityMap], run: RunLog, name: str) -> str:
    heading = f"<h2>Entities{escape(': ' + name) if name else ''}</h2>"
    if found is None:
        return heading + '<p class="note">The run saved no tables, so there is no map.</p>'
    shares = [f"{share:.1%}" for share in found.explained]
    said = (
        f"{len(found.maps[0].points):,} entities, drawn at random, on the two axes along which they differ most: "
        f"{shares[0]} and {shares[1]} of the variance. Point at one for its name."
    )
    figures = "".join(map(_map_figure, found.maps))
    missing = "" if len(found.maps) > 1 else " The graph is not where it was, so they have one colour."
    return f'{heading}<p class="note">{said}{missing}</p><div class="grid2">{figures}</div>'


def _map_figure(coloured: ColouredMap) -> str:
    key = legend([(short_label(text), colour) for text, colour in coloured.legend])
    return f"<figure><h3>{escape(coloured.title)}</h3>{scatter(coloured)}{key}</figure>"


def _relations_section(run: RunLog, name: str) -> str:
    heading = f"<h2>Relations{escape(': ' + name) if name else ''}</h2>"
    if not run.by_relation:
        command = f"dglke_eval --model_path {run.folder} --breakdown --json {run.folder / EVALUATION_FILE}"
        return f'{heading}<p class="note">Not evaluated by relation. This does it: <code>{escape(command)}</code></p>'
    rows: Dict[Optional[int], Dict[Optional[str], Dict[str, Any]]] = {}
    for row in run.by_relation:
        rows.setdefault(row.get("relation"), {})[row.get("side")] = row
    name_of = namer("relation", lambda: Run.load(run.folder, check_values=False).relation_names)
    lines = [
        _relation_line("all" if relation is None else name_of(relation), sides)
        for relation, sides in list(rows.items())[: RELATIONS_SHOWN + 1]
    ]
    more = len(rows) - 1 - RELATIONS_SHOWN
    note = f"The {RELATIONS_SHOWN} most frequent of {len(rows) - 1} relations." if more > 0 else ""
    head = (
        "<tr><th>relation</th><th>triples</th><th>MRR, heads</th><th>MRR, tails</th><th></th><th>HITS@10, heads</th>"
        "<th>HITS@10, tails</th></tr>"
    )
    key = legend([("finding heads", COLOUR_OF_SIDE[0]), ("finding tails", COLOUR_OF_SIDE[1])])
    body = f'<div class="scroll"><table class="wide">{head}{"".join(lines)}</table></div>'
    return f'{heading}{key}<p class="note">{note}</p>{body}'


COLOUR_OF_SIDE: Tuple[str, str] = ("#0072b2", "#d55e00")


def _relation_line(label: str, sides: Dict[Optional[str], Dict[str, Any]]) -> str:
    both = [sides.get(side) for side in ("head", "tail")]
    bars = "<br>".join(
        f'<span class="bar" style="width:{100 * row["MRR"]:.1f}%;background:{colour}"></span>'
        for row, colour in zip(both, COLOUR_OF_SIDE)
        if row
    )
    count = max((row.get("ranks") or 0 for row in both if row), default=0)
    cells = [
        _cell(count, "{:,}"),
        *(_cell(row and row["MRR"], "{:.3f}") for row in both),
        f'<td class="bars">{bars}</td>',
        *(_cell(row and row.get("HITS@10"), "{:.3f}") for row in both),
    ]
    return f"<tr><td>{escape(short_label(label))}</td>{''.join(cells)}</tr>"


def _flags(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    """What the runs differ in, as a table, and all flags of each."""
    parts: List[str] = ["<h2>Flags</h2>"]
    keys = [key for key in dict.fromkeys(key for run in runs for key in run.flags)]
    differing = [key for key in keys if len({repr(run.flags.get(key)) for run in runs}) > 1]
    if len(runs) > 1 and differing:
        head = "".join(f"<th>{escape(key)}</th>" for key in differing)
        lines = "".join(
            f"<tr><td>{escape(name)}</td>"
            + "".join(f"<td>{escape(str(run.flags.get(key, '-')))}</td>" for key in differing)
            + "</tr>"
            for run, name in zip(runs, names)
        )
        parts.append(f'<div class="scroll"><table><tr><th>run</th>{head}</tr>{lines}</table></div>')
    for run, name in zip(runs, names):
        text = "\n".join(f"{key}: {value}" for key, value in run.flags.items())
        parts.append(
            f"<details><summary>All flags of {escape(name)}</summary><pre>{escape(text) or 'unknown'}</pre></details>"
        )
    return "".join(parts)
