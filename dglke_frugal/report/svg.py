"""Charts and maps as inline SVG without a library, so that a page needs none to show them."""

from __future__ import annotations

import math
from html import escape
from typing import List, Sequence

from .charts import Chart
from .entity_map import ColouredMap

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 34
FEW_POINTS = 60  # so many are drawn as dots too, and say their value under the pointer


def ticks(low: float, high: float, wanted: int = 5) -> List[float]:
    """Round numbers 1, 2 or 5 times a power of ten apart, within low .. high."""
    if not high > low:
        return [low]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def number_text(value: float, percent: bool = False) -> str:
    """A number as short as a label needs: 12.5%, 24k, 1.2M, 0.0031."""
    if percent:
        return f"{value:.3g}".rstrip(".") + "%" if abs(value) >= 1e-9 else "0%"
    if value == 0:
        return "0"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.4g}{letter}"
    return f"{value:.4g}"


def line_chart(chart: Chart) -> str:
    """The chart as an <svg> element, without its legend."""
    scale = 100.0 if chart.percent else 1.0
    xs = [x for curve in chart.curves for x, _ in curve.points]
    ys = [y * scale for curve in chart.curves for _, y in curve.points]
    x_low, x_high = min(0, *xs) if len(xs) > 1 else 0, max(xs)
    y_low, y_high = min(ys), max(ys)
    margin = (y_high - y_low) * 0.06 or abs(y_high) * 0.1 or 1.0
    y_low, y_high = (0.0 if chart.from_zero and y_low >= 0 else y_low - margin), y_high + margin
    x_high = x_high if x_high > x_low else x_low + 1

    def place_x(x):
        return LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def place_y(y):
        return HEIGHT - BOTTOM - (y * scale - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">']
    for value in ticks(y_low, y_high):
        at = place_y(value / scale)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{number_text(value, chart.percent)}</text>')
    for value in ticks(x_low, x_high, 6):
        at = place_x(value)
        parts.append(
            f'<line class="tick" x1="{at:.1f}" x2="{at:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{number_text(value)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end" class="unit">step</text>')
    for curve in chart.curves:
        dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in curve.points)
        parts.append(f'<polyline class="curve" points="{path}" stroke="{curve.colour}"{dash}>'
                     f"<title>{escape(curve.label)}</title></polyline>")
        if len(curve.points) <= FEW_POINTS:
            for x, y in curve.points:
                message = f"{curve.label}: {number_text(y * scale, chart.percent)} after {x:,.0f} steps"
                parts.append(f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="2.6" fill="{curve.colour}">'
                             f"<title>{escape(message)}</title></circle>")
    return "".join([*parts, "</svg>"])


def legend(items: Sequence, dashes: Sequence[str] = ()) -> str:
    """(label, colour) pairs as a list; `dashes` as lines, without them as dots."""
    entries = []
    for place, (label, colour) in enumerate(items):
        if dashes:
            dash = f' stroke-dasharray="{dashes[place]}"' if dashes[place] else ""
            mark = ('<svg class="key" viewBox="0 0 26 8"><line x1="0" x2="26" y1="4" y2="4" '
                    f'stroke="{colour}" stroke-width="2.4"{dash}/></svg>')
        else:
            mark = f'<svg class="key dot" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="{colour}"/></svg>'
        entries.append(f"<li>{mark}{escape(label)}</li>")
    return f'<ul class="legend">{"".join(entries)}</ul>'


def scatter(coloured: ColouredMap) -> str:
    """A map of entities as an <svg> element, without its legend. Axes have no numbers, for only distances count."""
    size, edge = 420, 10
    low, high = coloured.points.min(axis=0), coloured.points.max(axis=0)
    span = max(float((high - low).max()), 1e-12)
    shift = (span - (high - low)) / 2
    parts = [f'<svg viewBox="0 0 {size} {size}" role="img" aria-label="{escape(coloured.title)}">',
             f'<rect class="frame" x="0.5" y="0.5" width="{size - 1}" height="{size - 1}"/>']
    for (x, y), group, label in zip((coloured.points - low + shift) / span, coloured.groups, coloured.labels):
        left, top = edge + x * (size - 2 * edge), size - edge - y * (size - 2 * edge)
        parts.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="2.4" fill="{coloured.legend[group][1]}" fill-opacity="0.75">'
            f"<title>{escape(label)}</title></circle>")
    return "".join([*parts, "</svg>"])
