"""The HTML page of a report. It carries its style and its pictures with it and asks for nothing from outside."""
from __future__ import annotations

from html import escape
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..inference.run import Run
from .charts import Chart, charts, short_label
from .entity_map import EntityMap, map_entities, namer
from .run_log import EVALUATION_FILE, RunLog, unique_names
from .svg import legend, line_chart, scatter

RELATIONS_SHOWN = 40

STYLE = """
:root { color-scheme: light; --ink: #1c1f23; --faint: #68707a; --line: #dde1e6; --paper: #fff; --sheet: #f5f6f8; }
body { margin: 0; background: var(--sheet); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1220px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 36px 0 10px; } h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0 10px; max-width: 80ch; } .note { color: var(--faint); font-size: 13px; margin: 0 0 6px; }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; min-width: 0; }
figure > svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--faint); }
svg .grid { stroke: var(--line); } svg .axis, svg .tick { stroke: #9aa2ac; } svg .frame { fill: none; stroke: var(--line); }
svg .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 6px 0 0; padding: 0; font-size: 13px; }
.legend li { overflow-wrap: anywhere; } .key { width: 26px; height: 8px; margin-right: 6px; } .key.dot { width: 9px; height: 9px; }
.scroll { overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: 14px; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; } th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12em; }
.narrow { font-size: 13px; } .narrow th, .narrow td { padding: 6px 8px; } .wide td:first-child { width: 36%; }
.bar { display: inline-block; height: 9px; border-radius: 2px; vertical-align: baseline; }
.wide .bars { text-align: left; width: 24%; min-width: 150px; } details { margin-top: 8px; } summary { cursor: pointer; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 12px; overflow-x: auto; font-size: 13px; }
"""


def make_page(runs: Sequence[RunLog]) -> str:
    """The report of one or more runs as the text of an HTML file."""
    names = unique_names(list(runs))
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs"
    parts = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             f"<title>{escape(title)} - dglke_frugal report</title><style>{STYLE}</style></head><body><main>",
             f"<h1>{escape(title)}</h1><p class=\"note\">{escape(_subtitle(runs))}</p>", _summary(runs, names)]
    found = charts(runs, names)
    if found:
        parts.append('<h2>Curves</h2><div class="grid2">' + "".join(map(_chart_figure, found)) + "</div>")
    for run, name in zip(runs, names):
        parts += [_map_section(map_entities(run.folder, run.flags), run, name if len(runs) > 1 else ""),
                  _relations_section(run, name if len(runs) > 1 else "")]
    parts += [_flags(runs, names), "</main></body></html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _subtitle(runs: Sequence[RunLog]) -> str:
    said = {f"{run.flags.get('model_name', 'a model')} on {run.flags.get('dataset', 'a graph')}, dim {run.flags.get('hidden_dim', '?')}"
            for run in runs}
    return "; ".join(sorted(said))


def _cell(value: Any, form: str = "{}") -> str:
    return f"<td>{form.format(value)}</td>" if value is not None else '<td class="note">-</td>'


def _times(value: Optional[float], factor: int) -> Optional[float]:
    return None if value is None else value * factor


def _summary(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    heads = ("run", "steps", "training", "triples/s", "stalled", "cache hits", "best valid MRR", "test MRR", "MR", "HITS@1", "@3",
             "@10", "peak memory")
    rows = []
    for run, name in zip(runs, names):
        result, training = run.result, run.result.get("training") or {}
        processes = len(result.get("ranks") or [0])
        test, store = result.get("test") or {}, training.get("store") or {}
        seconds = (result.get("seconds") or {}).get("training")
        last = max((curve[-1][0] for curve in run.curves.values()), default=None)
        best = max((value for _, value in run.metric("valid/MRR")), default=None)
        peak = result.get("peak_host_bytes")
        rows.append(f"<tr><td>{escape(name)}</td>" + "".join([
            _cell(result.get("steps", last), "{:,}"), _cell(seconds, "{:,.1f} s"), _cell(_times(training.get("triples_per_second"), processes), "{:,.0f}"),
            _cell(training.get("stall_share"), "{:.1%}"), _cell(store.get("hit_share"), "{:.1%}"), _cell(best, "{:.4f}"),
            _cell(test.get("MRR"), "{:.4f}"), _cell(test.get("MR"), "{:,.1f}"), _cell(test.get("HITS@1"), "{:.4f}"),
            _cell(test.get("HITS@3"), "{:.4f}"), _cell(test.get("HITS@10"), "{:.4f}"),
            _cell(None if peak is None else peak / 2**30, "{:.2f} GiB")]) + "</tr>")
    unfinished = [name for run, name in zip(runs, names) if not run.result]
    note = f'<p class="note">Not finished: {escape(", ".join(unfinished))}.</p>' if unfinished else ""
    head = "".join(f"<th>{text}</th>" for text in heads)
    return f'<h2>Result</h2><div class="scroll"><table class="narrow"><tr>{head}</tr>{"".join(rows)}</table></div>{note}'


def _chart_figure(chart: Chart) -> str:
    key = legend([(curve.label, curve.colour) for curve in chart.curves], [curve.dash for curve in chart.curves])
    return f'<figure><h3>{escape(chart.title)}</h3><p class="note">{escape(chart.note)}</p>{line_chart(chart)}{key}</figure>'


def _map_section(found: Optional[EntityMap], run: RunLog, name: str) -> str:
    heading = f"<h2>Entities{escape(': ' + name) if name else ''}</h2>"
    if found is None:
        return heading + '<p class="note">The run saved no tables, so there is no map.</p>'
    shares = [f"{share:.1%}" for share in found.explained]
    said = (f"{len(found.maps[0].points):,} entities, drawn at random, on the two axes along which their embeddings differ most: "
            f"{shares[0]} and {shares[1]} of the variance. Point at one for its name.")
    figures = "".join(f"<figure><h3>{escape(one.title)}</h3>{scatter(one)}{legend([(short_label(text), c) for text, c in one.legend])}"
                      "</figure>" for one in found.maps)
    missing = "" if len(found.maps) > 1 else " The graph is not where it was, so they have one colour."
    return f'{heading}<p class="note">{said}{missing}</p><div class="grid2">{figures}</div>'


def _relations_section(run: RunLog, name: str) -> str:
    heading = f"<h2>Relations{escape(': ' + name) if name else ''}</h2>"
    if not run.by_relation:
        command = f"dglke_eval --model_path {run.folder} --breakdown --json {run.folder / EVALUATION_FILE}"
        return f'{heading}<p class="note">Not evaluated by relation. This does it: <code>{escape(command)}</code></p>'
    rows: Dict[Optional[int], Dict[Optional[str], Dict[str, Any]]] = {}
    for row in run.by_relation:
        rows.setdefault(row.get("relation"), {})[row.get("side")] = row
    name_of = namer("relation", lambda: Run.load(run.folder, check_values=False).relation_names)
    lines = [_relation_line("all" if relation is None else name_of(relation), sides)
             for relation, sides in list(rows.items())[: RELATIONS_SHOWN + 1]]
    more = len(rows) - 1 - RELATIONS_SHOWN
    note = f"The {RELATIONS_SHOWN} most frequent of {len(rows) - 1} relations." if more > 0 else ""
    head = "<tr><th>relation</th><th>triples</th><th>MRR, heads</th><th>MRR, tails</th><th></th><th>HITS@10, heads</th>" \
           "<th>HITS@10, tails</th></tr>"
    key = legend([("finding heads", COLOUR_OF_SIDE[0]), ("finding tails", COLOUR_OF_SIDE[1])])
    return f'{heading}{key}<p class="note">{note}</p><div class="scroll"><table class="wide">{head}{"".join(lines)}</table></div>'


COLOUR_OF_SIDE: Tuple[str, str] = ("#0072b2", "#d55e00")


def _relation_line(label: str, sides: Dict[Optional[str], Dict[str, Any]]) -> str:
    both = [sides.get(side) for side in ("head", "tail")]
    bars = "<br>".join(f'<span class="bar" style="width:{100 * row["MRR"]:.1f}%;background:{colour}"></span>'
                       for row, colour in zip(both, COLOUR_OF_SIDE) if row)
    count = max((row.get("ranks") or 0 for row in both if row), default=0)
    cells = [_cell(count, "{:,}"), *(_cell(row and row["MRR"], "{:.3f}") for row in both), f'<td class="bars">{bars}</td>',
             *(_cell(row and row.get("HITS@10"), "{:.3f}") for row in both)]
    return f"<tr><td>{escape(short_label(label))}</td>{''.join(cells)}</tr>"


def _flags(runs: Sequence[RunLog], names: Sequence[str]) -> str:
    """What the runs differ in, as a table, and all flags of each."""
    parts: List[str] = ["<h2>Flags</h2>"]
    keys = [key for key in dict.fromkeys(key for run in runs for key in run.flags)]
    differing = [key for key in keys if len({repr(run.flags.get(key)) for run in runs}) > 1]
    if len(runs) > 1 and differing:
        head = "".join(f"<th>{escape(key)}</th>" for key in differing)
        lines = "".join(f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{escape(str(run.flags.get(key, '-')))}</td>" for key in differing)
                        + "</tr>" for run, name in zip(runs, names))
        parts.append(f'<div class="scroll"><table><tr><th>run</th>{head}</tr>{lines}</table></div>')
    for run, name in zip(runs, names):
        text = "\n".join(f"{key}: {value}" for key, value in run.flags.items())
        parts.append(f"<details><summary>All flags of {escape(name)}</summary><pre>{escape(text) or 'unknown'}</pre></details>")
    return "".join(parts)
