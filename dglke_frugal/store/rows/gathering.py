"""Where ranks send each other what gradients of a table's rows are made of (replicated_rows.py)."""

from __future__ import annotations

from dataclasses import dataclass

from ... import _native


@dataclass(frozen=True)
class Gathering:
    """exchange: of these ranks, with room for it. most: gradients of a rank's step, at most."""

    exchange: _native.Exchange
    most: int
