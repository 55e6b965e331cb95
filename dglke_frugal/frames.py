"""Columns of equal length by name: as a pandas DataFrame, where pandas is installed, and as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from .errors import InputError
from .extras import install_command

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 20  # in a notebook


def data_frame(columns: Mapping[str, Any], what: str, index: Any = None) -> DataFrame:
    """The columns as a DataFrame. what: the call that makes it, for the InputError without pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise InputError(f"{what} needs pandas, which is not installed; {install_command('tables')}") from None
    return DataFrame(dict(columns), index=index)


def html_table(columns: Mapping[str, Sequence[Any]], title: str = "") -> str:
    """The first rows as an HTML table, below a title."""
    rows = list(zip(*columns.values()))
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown_value(value))}</td>" for value in row) + "</tr>"
                   for row in rows[:SHOWN_ROWS])
    more = f"<p>{len(rows):,} rows, of which the first {SHOWN_ROWS}</p>" if len(rows) > SHOWN_ROWS else ""
    above = f"<p>{escape(title)}</p>" if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def shown_value(value: Any) -> str:
    """A value of a table for people: numbers with a fraction have four significant digits."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
