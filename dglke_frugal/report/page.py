"""The HTML page of a report. It carries its style, script and pictures with it and asks for nothing from outside."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib import resources
from typing import Optional, Sequence

from .charts import Chart, charts, short_label
from .comparison import all_flags, comparison
from .entity_map import ColouredMap, EntityMap, map_entities
from .html import paragraph, section
from .predictions import predictions_section
from .relations import relations_section
from .run_log import RunLog, unique_names
from .svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, legend, line_chart, scatter
from .trained import find_trained

CONTROLS = (
    '<div class="controls" hidden><label>smoothing <input type="range" id="smoothing" min="0" max="0.98" step="0.02" '
    'value="0"></label><label><input type="checkbox" id="logarithmic"> logarithmic</label>'
    '<span>Click on a name below a chart to hide its curve.</span></div>')


def make_page(runs: Sequence[RunLog], refresh_seconds: int = 0, with_tables: bool = True) -> str:
    """The report of one or more runs as the text of an HTML file.

    refresh_seconds: > 0 for a page that a browser loads again as often. with_tables: also what trained tables show.
    """
    names = unique_names(list(runs))
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs"
    refresh = f'<meta http-equiv="refresh" content="{refresh_seconds}">' if refresh_seconds else ""
    parts = [
        "<!doctype html>", f'<html lang="en"><head><meta charset="utf-8">{refresh}',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)} - dglke_frugal report</title><style>{_file('page.css')}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>{paragraph(escape(_subtitle(runs)))}", comparison(runs, names)]
    found = charts(runs, names)
    if found:
        parts.append(f'<h2>Curves</h2>{CONTROLS}<div class="grid2">' + "".join(map(_chart_figure, found)) + "</div>")
    for run, name in zip(runs, names) if with_tables else ():
        shown, trained = name if len(runs) > 1 else "", find_trained(run)
        parts += [_map_section(map_entities(trained), shown, trained.why_not),
                  predictions_section(trained, shown),
                  relations_section(run, trained, shown)]
    parts += [all_flags(runs, names), "</main>", _scripts(found) if found else "", "</body></html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _scripts(found: Sequence[Chart]) -> str:
    data = {"charts": [asdict(chart) for chart in found], "width": WIDTH, "height": HEIGHT, "left": LEFT,
            "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    text = json.dumps(data).replace("<", "\\u003c")
    return f'<script type="application/json" id="charts">{text}</script><script>{_file("page.js")}</script>'


def _subtitle(runs: Sequence[RunLog]) -> str:
    message = {
        "{} on {}, dim {}".format(*(run.flags.get(name, "?") for name in ("model_name", "dataset", "hidden_dim")))
        for run in runs}
    return "; ".join(sorted(message))


def _chart_figure(chart: Chart) -> str:
    key = legend([(curve.label, curve.colour) for curve in chart.curves], [curve.dash for curve in chart.curves])
    head = f"<h3>{escape(chart.title)}</h3>{paragraph(escape(chart.note))}"
    return f"<figure data-chart>{head}{line_chart(chart)}{key}</figure>"


def _map_section(found: Optional[EntityMap], name: str, why_not: str) -> str:
    if found is None:
        why_not = why_not or "it takes three entities, with numbers that are finite"
        return section("Entities", name, "", f"No map: {escape(why_not)}.")
    shares = [f"{share:.1%}" for share in found.explained]
    shown = len(found.maps[0].points)
    drawn = f"{shown:,} of {found.entities:,} entities, drawn at random,"
    which = drawn if shown < found.entities else f"All {shown:,} entities"
    message = (f"{which} on the two axes along which they differ most: {shares[0]} and {shares[1]} "
               "of the variance. Point at one for its name.")
    missing = "" if len(found.maps) > 1 else " The graph is not where it was, so they have one colour."
    figures = "".join(map(_map_figure, found.maps))
    return section("Entities", name, f'<div class="grid2">{figures}</div>', message + missing)


def _map_figure(coloured: ColouredMap) -> str:
    key = legend([(short_label(text), colour) for text, colour in coloured.legend])
    return f"<figure><h3>{escape(coloured.title)}</h3>{scatter(coloured)}{key}</figure>"
