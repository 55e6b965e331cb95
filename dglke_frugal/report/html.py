"""Pieces of HTML that the sections of a report share."""
from __future__ import annotations

from html import escape
from typing import Any, Optional, Sequence


def cell(value: Any, form: str = "{}", best: bool = False) -> str:
    """A table cell; its number is there for sorting, too. A dash stands for None."""
    if value is None:
        return '<td class="note">-</td>'
    text = escape(form.format(value))
    sortable = f' data-value="{value}"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    return f"<td{sortable}>{f'<b>{text}</b>' if best else text}</td>"


def table(heads: Sequence[str], rows: Sequence[str], kind: str, sortable: bool = False) -> str:
    """A table that scrolls by itself where the page is narrow. rows: <tr> elements."""
    row = "".join(f"<th>{escape(text)}</th>" for text in heads)
    names = f"{kind} sortable" if sortable else kind
    return (f'<div class="scroll"><table class="{names}"><thead><tr>{row}</tr></thead>'
            f'<tbody>{"".join(rows)}</tbody></table></div>')


def section(title: str, name: str, content: str, note: str = "") -> str:
    """A heading, a sentence below it and what it is about. name: of the run, where there are several."""
    heading = f"<h2>{escape(f'{title}: {name}' if name else title)}</h2>"
    return f'{heading}{paragraph(note)}{content}'


def paragraph(note: Optional[str]) -> str:
    """A short text in small letters; it may hold HTML."""
    return f'<p class="note">{note}</p>' if note else ""
