"""The nearest known name to one that does not exist."""
from __future__ import annotations

from difflib import get_close_matches
from typing import Iterable

_SHORT = 12  # lists that are shown as a whole


def or_nearest(name: object, names: Iterable[str]) -> str:
    """The end of a sentence that says that there is no `name`: the nearest of `names`, or which there are."""
    names = sorted(names)
    found = get_close_matches(str(name), names, n=1)
    if found:
        return f"; did you mean '{found[0]}'?"
    return f"; choose from {', '.join(names)}" if len(names) <= _SHORT else "; dglke_train --help lists them"
