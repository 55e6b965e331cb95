"""The lists of ids or names that dglke_predict and dglke_emb_sim read, and their results."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Iterable, Optional, Sequence, Union

import numpy as np

from ..data import text
from ..data.graph import Names
from ..errors import InputError, shown
from ..files import replace_file

TABLE = rb"(head\trel\ttail|left\tright)\tscore\n"  # how the results of both commands begin
PathLike = Union[str, os.PathLike]


def read_names(path: PathLike) -> Names:
    """The names of a map file (id TAB name); read when the first one is asked for."""
    if not Path(path).exists():
        raise InputError(
            f"there is no map file {path}; give the file with an id and a name per line that training wrote")
    return Names(partial(text.read_name_map, Path(path)))


def read_list(path: PathLike, names: Optional[Names] = None, rows: int = 2**63 - 1) -> np.ndarray:
    """One id per line, or one name per line if `names` is given: (n,) int64. rows: of the table that ids are of.

    Raises InputError, with file and line, for a file that cannot be read, no id at all, a line that is no id of the
    table, or an unknown name.
    """
    lines = text.read_list(Path(path))
    ids = np.empty(len(lines), np.int64)
    for number, line in enumerate(lines, start=1):
        try:
            ids[number - 1] = names.id_of(line) if names is not None else _id(line)
        except ValueError:
            raise InputError(
                f"line {number} of {path} is {shown(line, repr)}, which is no id; give numbers, or names with "
                "--raw_data and map files") from None
        except OverflowError:
            raise InputError(f"line {number} of {path} is {shown(line, repr)}, which is too large for an "
                             "id") from None
        except InputError as error:
            raise InputError(f"line {number} of {path}: {error}") from None
        if not 0 <= ids[number - 1] < rows:
            raise InputError(f"line {number} of {path} is {shown(line, repr)}, which is no id of the model; give ids "
                             f"from 0 to {rows - 1}")
    return ids


def _id(line: str) -> int:
    """Raises ValueError for text that is no number as others write it: Python takes names such as 1_2 for numbers."""
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", line):
        raise ValueError(line)
    return int(line)


def write_table(path: PathLike, header: Sequence[str], columns: Iterable[Iterable]) -> None:
    """Write columns as tab-separated text under a header, all or nothing. Scores are written as DGL-KE writes them.

    Raises InputError for a name that would be read as several fields.
    """
    with replace_file(path, "w") as file:
        file.write("\t".join(header) + "\n")
        for row in zip(*columns):
            file.write("\t".join(as_field(value) if isinstance(value, str) else str(value) for value in row) + "\n")


def as_field(name: str) -> str:
    """A name as a field of tab-separated text. Raises InputError if it would be read as several."""
    if set(name).isdisjoint("\t\n\r"):
        return name
    raise InputError(f"the name {name!r} has a tab or a line end in it, which separate fields of the result; use ids")
