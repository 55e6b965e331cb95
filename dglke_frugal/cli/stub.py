"""Prints python_training.pyi, from which editors and type checkers know the keywords of `dglke_frugal.train`."""

from __future__ import annotations

from ..python_training import keywords

_HEADER = '''\
# Made from dglke_frugal/options.py: python -m dglke_frugal.cli.stub > dglke_frugal/python_training.pyi
import inspect
import os
from typing import Any, Callable, List, Literal, Optional, Sequence, Union

from .inference.run import Run
from .training.log.tracker import Validation

def keywords() -> List[inspect.Parameter]: ...
'''


def stub() -> str:
    """The text of the file."""
    parameters = []
    for each in keywords():
        if each.name == "valid":  # the first that is given by its name alone
            parameters.append("*")
        annotation = str(each.annotation).replace("Callable[..., ", "Callable[[Validation], ")
        parameters.append(f"{each.name}: {annotation} = {'...' if each.default is None else repr(each.default)}")
    return _HEADER + "def train(\n" + "".join(f"    {each},\n" for each in parameters) + ") -> Run: ...\n"


if __name__ == "__main__":
    print(stub(), end="")
