"""A run's tables, with the names of their rows, in formats that other programs read."""

from __future__ import annotations

import json
import re
import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

import numpy as np

from ..arguments import one_of, path as as_path
from ..errors import InputError
from ..extras import install_command
from ..files import check_output, replace_file
from ..progress import progress
from .lists import as_field
from .name_maps import with_inverses
from .tables import PathLike

if TYPE_CHECKING:
    from .run import Run

_BLOCK = 1 << 14  # rows written together
_MOST_NAME_BYTES = 64 << 20  # readers refuse headers of more than 100 MB
_PARQUET_MARK = b"dglke_frugal"


def export(run: Run, output: PathLike, format: Optional[str] = None) -> None:
    """Write a run's tables in one of FORMATS; by default that of the output's ending (.safetensors, .npz, .parquet).

    Raises InputError: another format, a place that cannot be written or holds something else, names that the format
    cannot hold, or Parquet without pyarrow.
    """
    place = as_path("the output of export", output)
    form = format_of(place) if format is None else format
    if form is None:
        raise InputError(f"the ending of {place} names no format; give one of {', '.join(FORMATS)} as format")
    try:
        FORMATS[one_of("export format", form, tuple(FORMATS))](run, place)
    except OSError as error:
        raise InputError(f"cannot write {place}: {error.strerror}; choose another place") from error


def format_of(output: PathLike) -> Optional[str]:
    """The format that a file's ending names; None for all that are written into folders, and other endings."""
    ending = Path(output).suffix.removeprefix(".")
    return ending if ending in ("safetensors", "npz", "parquet") else None


def export_safetensors(run: Run, path: PathLike) -> None:
    """Write entity, relation (and projection) as one safetensors file, float32.

    The file's metadata has strings of JSON: the run's configuration, and lists of names, entity_names and
    relation_names, where the run has names and they take less than 64 MiB. Format: 8 bytes with the header's length,
    the header as JSON, the tables one after the other (https://github.com/huggingface/safetensors#format).
    InputError if the file cannot be written; then there is none.
    """
    check_output(path, rb".{8}\{\"__metadata__\":\{.*\"model_name\":")
    tables = _tables(run)
    named = {f"{role}_names": json.dumps(list(labels)) for role in tables for labels in [_labels(run, role)]
             if labels is not None and role != "projection"}
    if sum(map(len, named.values())) > _MOST_NAME_BYTES:
        named = {}
    header: Dict[str, object] = {
        "__metadata__": {**{key: json.dumps(value) for key, value in run.config.items()}, **named}}
    offset = 0
    for name, table in tables.items():
        header[name] = {"dtype": "F32", "shape": list(table.shape), "data_offsets": [offset, offset + table.nbytes]}
        offset += table.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tables begin at a multiple of eight bytes
    with replace_file(path) as file, progress(offset, "exporting", "bytes") as bar:
        file.write(struct.pack("<Q", len(text)) + text)
        for table in tables.values():
            for block in _blocks(table):
                file.write(block.astype("<f4", copy=False).tobytes())
                bar.update(block.nbytes)


def export_tsv(run: Run, folder: PathLike) -> None:
    """Write entities.tsv, relations.tsv (and projections.tsv) into a folder: name (or id) TAB numbers, a row per line.

    Inverse relations are named "NAME (inverse)". Numbers have nine significant digits, which give back the same
    float32. Raises InputError if files of these names hold something else, such as name maps, or a name has a tab.
    """
    def fields(name: str, rows: int) -> Iterable[str]:
        labels = _labels(run, name)
        return map(str, range(rows)) if labels is None else map(as_field, labels)

    _write_texts(run, Path(folder), ".tsv", "\t", fields, _row_pattern)


def export_npz(run: Run, path: PathLike) -> None:
    """Write an .npz file for `numpy.load`: arrays entity, relation (and projection), float32, and entity_names and
    relation_names, strings (ids as text where the run has no names)."""
    check_output(path, rb"PK\x03\x04.{26}entity\.npy")
    tables = _tables(run)
    arrays = {name: np.asarray(table, np.float32) for name, table in tables.items()}
    names = {f"{name}_names": np.array(_names(run, name, len(table))) for name, table in tables.items()
             if name != "projection"}
    with replace_file(path) as file:
        np.savez(file, **{**arrays, **names})  # type: ignore[arg-type]


def export_word2vec(run: Run, folder: PathLike) -> None:
    """Write entities.txt, relations.txt (and projections.txt) into a folder, in the text format of word2vec: a line
    with the number of rows and of their numbers, then a line for each row, its name and its numbers apart by spaces.

    White space in names becomes "_". Raises InputError if that gives two of them one name.
    """
    _write_texts(run, Path(folder), ".txt", " ", partial(_words, run), lambda _: rb"[0-9]+ [0-9]+\n\S+ -?[0-9]",
                 "{} {}\n")


def _write_texts(run: Run, folder: Path, ending: str, separator: str, labels_of: Callable[[str, int], Iterable[str]],
                 pattern: Callable[[int], bytes], heading: str = "") -> None:
    """Write a file for each table: a line for each row, its label and its numbers.

    labels_of(table, rows): the rows' labels. pattern(numbers): of the beginning of such a file whose rows have so many
    numbers. heading: the text before the rows; {} are how many there are, and how many numbers each has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = _tables(run)
    files = {name: folder / (("entities" if name == "entity" else f"{name}s") + ending) for name in tables}
    labels = {name: labels_of(name, len(table)) for name, table in tables.items()}
    for name, table in tables.items():
        check_output(files[name], pattern(table.shape[1]))
    for name, table in tables.items():
        with (replace_file(files[name], "w") as file,
              progress(len(table), f"exporting {files[name].name}", "rows") as bar):
            file.write(heading.format(*table.shape))
            own = iter(labels[name])
            for block in _blocks(table):
                for numbers in block.tolist():
                    file.write(separator.join([next(own), *(f"{number:.9g}" for number in numbers)]) + "\n")
                bar.update(len(block))


def _words(run: Run, table: str, rows: int) -> List[str]:
    names = _names(run, table, rows)
    words = [re.sub(r"\s", "_", name) for name in names]
    first: Dict[str, str] = {}
    for word, name in zip(words, names):
        if first.setdefault(word, name) != name:
            raise InputError(f"{first[word]!r} and {name!r} are both {word!r} in the format of word2vec, which has no "
                             "white space in names; export another format")
    return words


def export_parquet(run: Run, path: PathLike) -> None:
    """Write one Parquet file with the columns table ("entity", "relation" or "projection"), id, name and embedding, a
    list of float32. InputError without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet is written by pyarrow, which is not installed: "
                         f"{install_command('tables')}") from None
    check_output(path, b"PAR1")
    _check_parquet(Path(path), parquet)
    marks = {_PARQUET_MARK: run.config["model_name"].encode()}
    schema = pyarrow.schema([("table", pyarrow.string()), ("id", pyarrow.int64()), ("name", pyarrow.string()),
                             ("embedding", pyarrow.list_(pyarrow.float32()))], metadata=marks)
    with replace_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for name, table in _tables(run).items():
            names, row = _names(run, name, len(table)), 0
            for block in _blocks(table):
                block = np.ascontiguousarray(block, np.float32)
                ends = np.arange(0, block.size + 1, block.shape[1], dtype=np.int32)
                rows = range(row, row + len(block))
                writer.write_table(pyarrow.Table.from_arrays([
                    pyarrow.array([name] * len(block)), pyarrow.array(rows, pyarrow.int64()),
                    pyarrow.array([names[i] for i in rows]),
                    pyarrow.ListArray.from_arrays(pyarrow.array(ends), pyarrow.array(block.ravel()))], schema=schema))
                row += len(block)


def _check_parquet(path: Path, parquet: Any) -> None:
    """InputError if a file is there that export has not written, such as triples."""
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        is_ours = _PARQUET_MARK in (parquet.read_metadata(path).metadata or {})
    except Exception:  # noqa: BLE001 - of a damaged file
        is_ours = False
    if not is_ours:
        raise InputError(f"{path} is there already, and is no earlier output of this command; choose another name, or "
                         "remove it")


def _names(run: Run, table: str, rows: int) -> List[str]:
    """Names of a table's rows, ids as text where the run has none."""
    labels = _labels(run, table)
    return [str(number) for number in range(rows)] if labels is None else list(labels)


def _row_pattern(numbers: int) -> bytes:
    """How a file of names and so many numbers begins; a map of ids and names has one field behind the first."""
    return rb"[^\t\n]*(\t-?[0-9][0-9.e+-]*){%d}" % min(numbers, 2) + (rb"\n" if numbers == 1 else b"")


def _labels(run: Run, table: str) -> Optional[Sequence[str]]:
    """Names of a table's rows, None if the run has none."""
    names = run.names["entity" if table == "entity" else "relation"]
    return with_inverses(names) if names is not None and table == "relation" and run.model.reciprocal else names


def _tables(run: Run) -> Dict[str, np.ndarray]:
    tables = {"entity": run.model.entity, "relation": run.model.relation}
    if run.model.projection is not None:
        tables["projection"] = run.model.projection
    return tables


FORMATS: Dict[str, Callable[[Run, PathLike], None]] = {
    "safetensors": export_safetensors, "tsv": export_tsv, "npz": export_npz, "parquet": export_parquet,
    "word2vec": export_word2vec}


def _blocks(table: np.ndarray) -> Iterator[np.ndarray]:
    for begin in range(0, len(table), _BLOCK):
        yield np.asarray(table[begin : begin + _BLOCK])
