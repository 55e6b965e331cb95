"""Builds the arrays of a data set from its text files."""
from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import _native
from ..errors import InputError
from . import table_files, text
from .cache import Sink
from .graph import Triples
from .layouts import Ids, TextLayout


def flags(layout: TextLayout) -> dict:
    """Settings that decide the arrays, in addition to the files."""
    lines = layout.lines
    return {"ids": layout.ids.name, "order": lines.order, "delimiter": lines.delimiter, "weighted": lines.weighted,
            "splits": list(layout.splits)}


def build(layout: TextLayout, sink: Sink) -> dict:
    """Reads all files of `layout`: columns `<split>.head` and so on; names, if the layout reads them, as
    `entity.bytes`, `entity.offsets` and so on. Returns {"n_entities": ..., "n_relations": ...}."""
    if layout.ids in (Ids.COUNT_LINE, Ids.MAP_LINES):
        return _build_from_ids(layout, sink)
    return _build_from_names(layout, sink)


def _columns(sink: Sink, split: str, path: Path, dtype, weighted: bool, header: bool = False) -> Triples:
    rows = text.count_lines(path, header)
    head, relation, tail = (sink.empty(f"{split}.{column}", rows, dtype) for column in ("head", "relation", "tail"))
    return Triples(head, relation, tail, sink.empty(f"{split}.weight", rows, np.float32) if weighted else None)


def _build_from_ids(layout: TextLayout, sink: Sink) -> dict:
    def count(path: Path) -> int:
        if layout.ids is Ids.COUNT_LINE:
            return text.read_count(path)
        return len(text.read_name_map(path, layout.lines.delimiter)[1]) - 1  # for its checks: names are read on demand

    n_entities, n_relations = count(layout.entity_map), count(layout.relation_map)
    dtype = np.int32 if max(n_entities, n_relations) <= 2**31 else np.int64
    for split, path in layout.splits.items():
        out = _columns(sink, split, path, dtype, layout.lines.weighted)
        text.read_id_triples(path, layout.lines, n_entities, n_relations, out)
    return {"n_entities": n_entities, "n_relations": n_relations}


def _build_from_names(layout: TextLayout, sink: Sink) -> dict:
    number_new = layout.ids is Ids.FIRST_APPEARANCE
    if number_new:
        entities, relations = _native.NameTable(), _native.NameTable()
    else:
        entities, relations = (_native.NameTable(*text.read_name_map(path, layout.lines.delimiter, stripped=True))
                               for path in (layout.entity_map, layout.relation_map))
    for split, path in layout.splits.items():
        lines = layout.lines
        if number_new and table_files.is_table(path, lines.delimiter):
            if lines.weighted:
                raise InputError(f"{path} is a table, and --has_edge_importance is for files of text; write it as text "
                                 "with a column of weights, apart by TAB")
            table_files.read_table(path, lines.order, split, entities, relations, sink)
            continue
        if number_new:  # DGL-KE's own data sets have no headers
            lines = text.with_header(path, lines)
        out = _columns(sink, split, path, np.int32, lines.weighted, lines.header)
        text.read_name_triples(path, lines, entities, relations, number_new, out)
    counts = {"n_entities": len(entities), "n_relations": len(relations)}
    for role, table in (("entity", entities), ("relation", relations)):
        for part, values in zip(("bytes", "offsets"), table.release()):
            sink.put(f"{role}.{part}", values)
    return counts
