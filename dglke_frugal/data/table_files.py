"""Triples of names in CSV and Parquet files: columns head, relation and tail by name, or three columns in order."""
from __future__ import annotations

import csv
from array import array
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy as np

from .. import _native
from ..errors import InputError, shown
from ..extras import install_command
from ..progress import progress
from .cache import Sink
from .column_names import header_order
from .text import BLOCK_BYTES, open_input

_LONGEST_NAME = BLOCK_BYTES // 2 - 64  # in bytes: it is read as a line of a map, with its id
_TOGETHER = 1 << 16  # rows of a Parquet file that are in memory as Python's strings
Rows = Iterator[Tuple[int, Sequence]]  # (number of the line or row, from 1; head, relation, tail)


def is_table(path: Path, delimiter: str) -> bool:
    """Whether a file is read as a table: Parquet, or CSV, if --delimiter does not say how lines are cut.

    A file .csv whose first line has a TAB is text like any other.
    """
    if path.name.endswith(".parquet"):
        return True
    if not path.name.endswith(".csv") or delimiter != "\t":
        return False
    with open_input(path) as file:
        return b"\t" not in file.read(1 << 16).partition(b"\n")[0]


def read_table(path: Path, order: str, split: str, entities: _native.NameTable, relations: _native.NameTable,
               sink: Sink) -> None:
    """Read a table's triples into the columns of a split of `sink`; new names get the next ids, a row's head before its
    tail.

    order: which of head, relation, tail is in columns 1, 2, 3 of a table whose columns do not say so by their names.

    Raises InputError: a file that cannot be read, other columns, a row without a name or with one that no map can hold.
    """
    is_parquet = path.name.endswith(".parquet")
    rows, unit = (_parquet_rows, "row") if is_parquet else (_csv_rows, "line")
    head, relation, tail = array("i"), array("i"), array("i")
    of_entity: Dict[str, int] = {}  # the ids that are known already, in Python's own hash table
    of_relation: Dict[str, int] = {}

    def numbered(where: int, role: str, name: object, known: Dict[str, int], table: _native.NameTable) -> int:
        number = table.add(name_bytes(f"{path}, {unit} {where}", role, name))
        if isinstance(name, str):
            known[name] = number
        return number

    with progress(None, f"reading {path.name}", "triples") as bar:
        for where, (h, r, t) in rows(path, order):
            for ids, role, name, known, table in ((head, "head", h, of_entity, entities),
                                                  (relation, "relation", r, of_relation, relations),
                                                  (tail, "tail", t, of_entity, entities)):
                number = known.get(name) if isinstance(name, str) else None
                ids.append(numbered(where, role, name, known, table) if number is None else number)
            if len(head) % _TOGETHER == 0:
                bar.update(_TOGETHER)
    if not head:
        raise InputError(f"{path} has no triples; it must have at least one")
    for column, ids in (("head", head), ("relation", relation), ("tail", tail)):
        sink.put(f"{split}.{column}", np.frombuffer(ids, np.int32))


def is_missing(value: object) -> bool:
    """Whether it stands for no value, in Python, NumPy or pandas."""
    return type(value).__name__ in ("NoneType", "NAType", "NaTType") or isinstance(
        value, (float, np.floating)) and bool(np.isnan(value))


def name_bytes(where: str, role: str, name: object) -> bytes:
    """A name as UTF-8. InputError unless it is text, or an integer, that a line of a map of ids and names can hold."""
    if isinstance(name, (int, np.integer)) and not isinstance(name, (bool, np.bool_)):
        name = str(name)
    if not isinstance(name, str):
        message, more = f"is {shown(name, repr)}, which is neither text nor an integer", ""
        if is_missing(name):
            message, more = "is missing", "; pandas keeps names such as NA with keep_default_na=False"
        raise InputError(f"{where}: the {role} {message}; correct the row or leave it out{more}")
    if not name:
        raise InputError(f"{where}: the {role} has no name; write one, or leave the row out")
    if any(mark in name for mark in "\t\n\r\0"):
        raise InputError(f"{where}: the name {shown(name, repr)} of the {role} has a tab or a line end in it, which "
                         "maps of ids and names cannot hold; replace it, for instance by a space")
    try:
        text = name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where}: the name {shown(ascii(name))} of the {role} is half of a character; correct "
                         "it") from None
    if len(text) > _LONGEST_NAME:
        raise InputError(f"{where}: the name of the {role} has {len(text):,} bytes, and maps of ids and names hold "
                         f"{_LONGEST_NAME:,} at most; shorten it")
    return text


def _csv_rows(path: Path, order: str) -> Rows:
    with open_input(path):  # for its sentences on files that cannot be read
        pass
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            lines = csv.reader(file, delimiter=";" if first.count(";") > first.count(",") else ",", strict=True)
            places = None
            for cells in lines:
                if not cells:
                    continue
                where = lines.line_num
                cells = [cell.strip() for cell in cells]
                if places is None:
                    by_name = header_order(cells)
                    places = by_name or _places(order)
                    if by_name is not None:
                        width = len(cells)
                        continue
                    width = 3
                if len(cells) != width:
                    raise InputError(f"{path}, line {where} has {len(cells)} column{'s' * (len(cells) != 1)} where "
                                     f"{width} are needed (head, relation and tail); quote names that have the "
                                     "delimiter in them, or write a first line that names the columns")
                yield where, [cells[place] for place in places]
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-8; convert it to UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num} is not CSV: {error}; correct it") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file and its disk") from None


def _parquet_rows(path: Path, order: str) -> Rows:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path} is a Parquet file, which pyarrow reads, and it is not installed: "
                         f"{install_command('tables')}") from None
    with open_input(path):
        pass
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            places = header_order(names)
            if places is None and (len(names) != 3 or len(set(names)) < 3):
                raise InputError(f"{path} has the columns {shown(', '.join(names) or 'none')}; name three of them "
                                 "head, relation and tail")
            chosen = [names[place] for place in places or _places(order)]
            row = 0
            for batch in file.iter_batches(_TOGETHER, columns=chosen):
                for triple in zip(*(batch.column(name).to_pylist() for name in chosen)):
                    row += 1
                    yield row, triple
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}; write it again as Parquet") from None


def _places(order: str) -> List[int]:
    return [order.index(letter) for letter in "hrt"]
