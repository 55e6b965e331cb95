"""Names of the columns of a table of triples."""
from __future__ import annotations

from typing import List, Optional, Sequence

COLUMN_NAMES = (("head", "relation", "tail"), ("heads", "relations", "tails"), ("h", "r", "t"),
                ("subject", "predicate", "object"), ("s", "p", "o"))


def header_order(cells: Sequence[object]) -> Optional[List[int]]:
    """Where head, relation and tail stand in a first line that names its columns; None if it does not name them."""
    lower = [str(cell).strip().lower() for cell in cells]
    return next(([lower.index(name) for name in names] for names in COLUMN_NAMES
                 if all(lower.count(name) == 1 for name in names)), None)
