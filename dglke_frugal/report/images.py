"""The pictures of a report as PNG files, drawn by matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import List, Sequence

from ..errors import InputError
from ..extras import install_command
from ..files import check_output, replace_file
from .charts import Chart, charts, short_label
from .entity_map import EntityMap, map_entities
from .run_log import RunLog, unique_names
from .trained import find_trained


def write_images(runs: Sequence[RunLog], folder: Path) -> List[Path]:
    """Write each chart, and each map of entities, into `folder`. Returns the files. Raises InputError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f"images need matplotlib, which is not installed: {install_command('report')}, or leave --png out, for the "
            "page has the pictures in it"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}; choose a folder that can be written") from error
    names = unique_names(list(runs))
    figures = {_file_name(chart.title): _draw(Figure, chart) for chart in charts(runs, names)}
    for run, name in zip(runs, names):
        found = map_entities(find_trained(run))
        if found is not None:
            figures[_file_name("entities" if len(runs) == 1 else f"entities {name}")] = _draw_map(Figure, found)
    for name in figures:
        check_output(folder / name, b"\x89PNG")
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
        with replace_file(folder / name) as file:
            file.write(buffer.getvalue())
    return [folder / name for name in figures]


def _file_name(title: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in title.lower()) + ".png"


def _draw(figure_class, chart: Chart):
    figure = figure_class(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    scale = 100.0 if chart.percent else 1.0
    for curve in chart.curves:
        style = (0, tuple(float(part) for part in curve.dash.split())) if curve.dash else "-"
        axes.plot([x for x, _ in curve.points], [y * scale for _, y in curve.points], color=curve.colour,
                  linestyle=style, linewidth=1.6, marker="o" if len(curve.points) < 30 else None, markersize=3,
                  label=curve.label)
    if chart.from_zero:
        axes.set_ylim(bottom=0)
    axes.set(title=chart.title, xlabel="step", ylabel=chart.note + (" (%)" if chart.percent else ""))
    axes.grid(alpha=0.3)
    columns = 1 if max(len(curve.label) for curve in chart.curves) > 32 else 4
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _draw_map(figure_class, found: EntityMap):
    figure = figure_class(figsize=(6.2 * len(found.maps), 6.6), layout="constrained")
    for place, one in enumerate(found.maps):
        axes = figure.add_subplot(1, len(found.maps), place + 1)
        for group, (label, colour) in enumerate(one.legend):
            inside = one.points[one.groups == group]
            axes.scatter(inside[:, 0], inside[:, 1], s=7, color=colour, alpha=0.75, label=short_label(label))
        axes.set(title=one.title, xticks=[], yticks=[], aspect="equal")
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=1 if place else 2)
    return figure
