"""Loading a knowledge graph: finds the files, reads them into arrays, gives the ids DGL-KE gives."""
from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Dict, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _native
from ..errors import InputError
from ..files import replace_file
from . import text
from .graph import KnowledgeGraph, Names, Triples
from .layouts import WITH_COUNTS, WITH_DICTIONARIES, Ids, TextLayout, built_in_layout, check_format, user_layout

PathLike = Union[str, os.PathLike]
Packed = Tuple[np.ndarray, np.ndarray]


def load_graph(dataset: str = "FB15k", path: PathLike = "data", format: str = "built_in",
               files: Optional[Sequence[str]] = None, delimiter: str = "\t", has_edge_importance: bool = False, *,
               map_folder: Optional[PathLike] = None) -> KnowledgeGraph:
    """Read a data set with the ids and in the order that DGL-KE gives it.

    dataset, path, format, files, delimiter, has_edge_importance: DGL-KE's flags --dataset, --data_path, --format,
        --data_files, --delimiter and --has_edge_importance.
    map_folder: where a raw_udd format writes entities.tsv and relations.tsv (id TAB name); None writes none.

    Raises InputError with one sentence that names file, line and remedy for whatever is wrong with the input.
    """
    check_format(format)
    folder = Path(path)
    if format == "built_in":
        layout = _built_in(dataset, folder, has_edge_importance)
    else:
        if dataset == "FB15k":
            raise InputError(f"--format {format} reads your own files, so give them a name of their own with --dataset")
        layout = user_layout(dataset, folder, format, files, delimiter, has_edge_importance)
    graph = _read(layout)
    if layout.ids is Ids.FIRST_APPEARANCE and map_folder is not None:
        maps = Path(map_folder) / "entities.tsv", Path(map_folder) / "relations.tsv"
        write_name_map(maps[0], graph.entity_names)
        write_name_map(maps[1], graph.relation_names)
        graph = replace(graph, entity_map=maps[0], relation_map=maps[1])
    return graph


def _built_in(dataset: str, folder: Path, has_edge_importance: bool) -> TextLayout:
    if has_edge_importance:
        raise InputError("built-in data sets have no edge importance; leave --has_edge_importance out, "
                         "or read your files with --format udd_hrt or raw_udd_hrt")
    known = (*WITH_DICTIONARIES, *WITH_COUNTS)
    if dataset not in known:
        raise InputError(f"unknown --dataset {dataset!r} for --format built_in; it must be one of {', '.join(known)}, "
                         "or choose a udd or raw_udd format for your own files")
    return built_in_layout(dataset, folder / dataset)


def _read(layout: TextLayout) -> KnowledgeGraph:
    """Reads all files of a layout."""
    rows = {split: text.count_lines(path) for split, path in layout.splits.items()}
    if layout.ids in (Ids.COUNT_LINE, Ids.MAP_LINES):
        splits, n_entities, n_relations, entities, relations = _read_ids(layout, rows)
    else:
        splits, entities, relations = _read_names(layout, rows)
        n_entities, n_relations = len(entities), len(relations)
    return KnowledgeGraph(layout.name, n_entities, n_relations, **splits, entity_map=layout.entity_map,
                          relation_map=layout.relation_map, entity_names=entities, relation_names=relations)


def _columns(rows: int, dtype, weighted: bool) -> Triples:
    weight = np.empty(rows, np.float32) if weighted else None
    return Triples(np.empty(rows, dtype), np.empty(rows, dtype), np.empty(rows, dtype), weight)


def _read_ids(layout: TextLayout, rows: Dict[str, int]):
    count_line = layout.ids is Ids.COUNT_LINE
    count = text.read_count if count_line else text.count_lines
    n_entities, n_relations = count(layout.entity_map), count(layout.relation_map)
    dtype = np.int32 if max(n_entities, n_relations) <= 2**31 else np.int64
    splits = {}
    for split, path in layout.splits.items():
        splits[split] = _columns(rows[split], dtype, layout.lines.weighted)
        text.read_id_triples(path, layout.lines, n_entities, n_relations, splits[split])
    names = [Names(partial(text.read_name_map, path, layout.lines.delimiter, count_line))
             for path in (layout.entity_map, layout.relation_map)]
    return splits, n_entities, n_relations, names[0], names[1]


def _read_names(layout: TextLayout, rows: Dict[str, int]):
    number_new = layout.ids is Ids.FIRST_APPEARANCE
    if number_new:
        entities, relations = _native.NameTable(), _native.NameTable()
    else:
        entities, relations = (_native.NameTable(*text.read_name_map(path, layout.lines.delimiter))
                               for path in (layout.entity_map, layout.relation_map))
    splits = {}
    for split, path in layout.splits.items():
        splits[split] = _columns(rows[split], np.int32, layout.lines.weighted)
        text.read_name_triples(path, layout.lines, entities, relations, number_new, splits[split])
    packed = [(table.bytes(), table.offsets()) for table in (entities, relations)]
    return splits, Names(partial(_same, packed[0])), Names(partial(_same, packed[1]))


def _same(packed: Packed) -> Packed:
    return packed


def write_name_map(path: Path, names: Names) -> None:
    """Writes `id TAB name` lines, all or nothing."""
    with replace_file(path, "w") as file:
        file.writelines(f"{i}\t{name}\n" for i, name in enumerate(names))
