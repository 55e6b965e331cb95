"""The page of a search: its metric over the trials and over each flag, and a table. It asks for nothing from outside.

Where plotly is installed, Optuna's own plots take the place of ours.
"""

from __future__ import annotations

import math
from html import escape
from importlib import resources
from typing import Any, List, Sequence, Tuple, Union

from ..report import html
from ..report.charts import COLOURS
from ..report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, legend, number_text, ticks
from .space import VARIANT, Choice, Range, Space, bare, listed
from .study import Tried

STATES = (("complete", COLOURS[0]), ("pruned", COLOURS[6]))
_COLOUR = dict(STATES)


def make_page(title: str, space: Space, tried: Sequence[Tried], metric: str = "MRR",
              plots: Sequence[Tuple[str, str]] = ()) -> str:
    """The text of an HTML file. tried: the best one first. plots: (title, HTML) of Optuna's (plots.py), for which ours
    stand where there are none."""
    style = resources.files(html.__package__).joinpath("page.css").read_text(encoding="utf-8")
    shown = [each for each in tried if each.value is not None and each.failed is None]
    best = shown[0] if shown else None
    message = "no trial has had a validation so far" if best is None else (
        f"{len(tried)} trials; the best is trial {best.number} with a validation {best.metric} of {best.value:.4f}: "
        f"{', '.join(listed(best.params))}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)} - dglke_frugal search</title><style>{style}</style></head><body><main>",
        f"<h1>Search: {escape(title)}</h1>{html.paragraph(escape(message))}"]
    if plots:
        parts += [html.section(name, "", text) for name, text in plots]
    elif shown:
        figures = [_figure("Trials", "best validation of each, in their order",
                           _chart([(each.number, each) for each in shown], False, []))]
        figures += [_by_parameter(name, domain, shown) for name, domain in space.parameters.items()
                    if any(name in each.params for each in shown)]
        parts.append(f'<h2>{escape(metric)}</h2><div class="grid2">{"".join(figures)}</div>')
    parts += [html.section("Trials", "", _table(space, tried, metric), "The best first."),
              html.section("The same for all trials", "", html.table(("flag", "value"), [
                  f"<tr><td>{escape(name)}</td>{html.cell(str(value))}</tr>" for name, value in space.flags.items()],
                  "narrow")), "</main></body></html>"]
    return "\n".join(parts) + "\n"


def _by_parameter(name: str, domain: Union[Choice, Range], shown: Sequence[Tried]) -> str:
    points = [(each.params[name], each) for each in shown if name in each.params]
    if isinstance(domain, Range):
        return _figure(name, "on a logarithmic axis" if domain.log else "", _chart(points, domain.log, []))
    labels = [str(value) for value in domain.values]
    return _figure(name, "", _chart([(labels.index(str(value)), each) for value, each in points], False, labels))


def _figure(title: str, note: str, chart: str) -> str:
    return f"<figure><h3>{escape(title)}</h3>{html.paragraph(escape(note))}{chart}{legend(STATES)}</figure>"


def _chart(points: Sequence[Tuple[float, Tried]], log: bool, labels: Sequence[str]) -> str:
    """Dots at (value, metric). labels: of the values 0, 1, ... of an axis without numbers."""
    xs = [math.log10(x) if log else float(x) for x, _ in points]
    low, high = (-0.5, len(labels) - 0.5) if labels else (min(xs), max(xs))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    top = max(each.value for _, each in points) * 1.06 or 1.0

    def place_x(x: float) -> float:
        return LEFT + 8 + (x - low) / (high - low) * (WIDTH - LEFT - RIGHT - 16)

    def place_y(y: float) -> float:
        return HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts: List[str] = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="trials">']
    for value in ticks(0.0, top):
        at = place_y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                     f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{number_text(value)}</text>')
    marks: List[Tuple[float, Any]] = list(enumerate(labels)) if labels else [
        (value, number_text(10**value if log else value)) for value in ticks(low, high, 6)]
    for value, label in marks:
        parts.append(f'<text x="{place_x(value):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">'
                     f"{escape(str(label))}</text>")
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    for x, (_, each) in zip(xs, points):
        message = f"trial {each.number}: {each.value:.4f}; {', '.join(listed(each.params))}"
        parts.append(f'<circle cx="{place_x(x):.1f}" cy="{place_y(each.value):.1f}" r="3.4" fill-opacity="0.75" '
                     f'fill="{_COLOUR.get(each.state, COLOURS[6])}"><title>{escape(message)}</title></circle>')
    return "".join([*parts, "</svg>"])


def _table(space: Space, tried: Sequence[Tried], metric: str) -> str:
    columns = [*([VARIANT] if space.variants else []), *bare(space.parameters)]
    rows = []
    for place, each in enumerate(tried):
        chosen = {VARIANT: each.params.get(VARIANT), **bare(each.params)}
        values = [html.cell(chosen.get(name), "{:.4g}" if isinstance(chosen.get(name), float) else "{}")
                  for name in columns]
        state = each.state if each.failed is None else f"failed: {each.failed}"
        rows.append(f"<tr><td>{each.number}</td>{html.cell(each.value, '{:.4f}', best=place == 0)}"
                    f"{html.cell(each.step, '{:,}')}{html.cell(each.seconds, '{:.0f}')}{''.join(values)}"
                    f"{html.cell(state)}</tr>")
    return html.table(("trial", metric, "step", "seconds", *columns, "how it ended"), rows, "narrow")
