"""A run's tables in formats that other programs read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Dict, Iterator, Optional, Sequence

import numpy as np

from ..files import check_output, replace_file
from ..progress import progress
from .lists import as_field
from .name_maps import with_inverses
from .run import Run
from .tables import PathLike

_BLOCK = 1 << 14  # rows written together


def export_safetensors(run: Run, path: PathLike) -> None:
    """Write entity, relation (and projection) as one safetensors file, float32, with names of nothing but the tables.

    The run's configuration is in the file's metadata as strings. Format: 8 bytes with the header's length, the header
    as JSON, the tables one after the other (https://github.com/huggingface/safetensors#format). InputError if the file
    cannot be written; then there is none.
    """
    check_output(path, rb".{8}\{\"__metadata__\":\{.*\"model_name\":")
    tables = _tables(run)
    header: Dict[str, object] = {"__metadata__": {key: json.dumps(value) for key, value in run.config.items()}}
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
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"entity": "entities.tsv", "relation": "relations.tsv", "projection": "projections.tsv"}
    tables = _tables(run)
    for name, table in tables.items():
        check_output(folder / files[name], _row_pattern(table.shape[1]))
    for name, table in tables.items():
        labels = _labels(run, name)
        with (
            replace_file(folder / files[name], "w") as file,
            progress(len(table), f"exporting {files[name]}", "rows") as bar,
        ):
            row = 0
            for block in _blocks(table):
                for numbers in block.tolist():
                    label = as_field(labels[row]) if labels is not None else str(row)
                    file.write(label + "\t" + "\t".join(f"{number:.9g}" for number in numbers) + "\n")
                    row += 1
                bar.update(len(block))


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


def _blocks(table: np.ndarray) -> Iterator[np.ndarray]:
    for begin in range(0, len(table), _BLOCK):
        yield np.asarray(table[begin : begin + _BLOCK])
