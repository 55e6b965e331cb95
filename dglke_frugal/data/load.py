"""Loading a knowledge graph: finds the files, reads them into arrays, gives the ids DGL-KE gives."""
from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import InputError, shortages_as_input_errors
from ..flag_values import file_path
from . import cache as parsed, from_text, ogb, text
from .download import fetch
from .find_files import BUILT_IN, LOOKED_FOR
from .graph import KnowledgeGraph, Names, Triples
from .layouts import (SPLITS, WITH_COUNTS, WITH_DICTIONARIES, Ids, TextLayout, built_in_layout, check_format,
                      user_layout)

PathLike = Union[str, os.PathLike]


@shortages_as_input_errors()
def load_graph(dataset: str = "FB15k", path: PathLike = "data", format: str = "built_in",
               files: Optional[Sequence[str]] = None, delimiter: str = "\t", has_edge_importance: bool = False, *,
               cache: parsed.Where = None) -> KnowledgeGraph:
    """Read a data set with the ids and in the order that DGL-KE gives it.

    dataset, path, format, files, delimiter, has_edge_importance: DGL-KE's flags --dataset, --data_path, --format,
        --data_files, --delimiter and --has_edge_importance. A built-in data set that is not in `path` is downloaded;
        wikikg2, biokg, wikikg90M and wikikg90Mv2 are also read from the directories that ogb makes there.
    cache: where the parsed form is kept for the next run: None, next to the data if that is large; True, always there;
        a folder; False, nowhere.

    Raises InputError with one sentence that names file, line and remedy for whatever is wrong with the input.
    """
    check_format(format)
    folder = Path(file_path(path))
    if format == "built_in":
        if has_edge_importance:
            raise InputError("built-in data sets have no edge importance; leave --has_edge_importance out, "
                             "or read your files with --format udd_hrt or raw_udd_hrt")
        if dataset not in BUILT_IN:
            raise InputError(f"unknown --dataset {dataset!r} for --format built_in: it is none of "
                             f"{', '.join(BUILT_IN)}, and neither {folder / dataset} nor {folder} has a file "
                             f"{LOOKED_FOR}; give one of them, or your own files with a udd or raw_udd format")
        found = ogb.find(dataset, folder) if dataset in ogb.NAMES else None
        if found is not None:
            return _load_ogb(found, cache)
        if dataset not in (*WITH_DICTIONARIES, *WITH_COUNTS):
            raise ogb.how_to_get(dataset, folder)
        if not (folder / dataset).exists():
            fetch(dataset, folder)
        layout = built_in_layout(dataset, folder / dataset)
    else:
        if dataset == "FB15k":
            raise InputError(f"--format {format} reads your own files, so give them a name of their own with --dataset")
        files = [file_path(each) for each in files or ()]
        layout = user_layout(dataset, folder, format, files, delimiter, has_edge_importance)
    return _load_text(layout, cache)


def _load_text(layout: TextLayout, cache: parsed.Where) -> KnowledgeGraph:
    meta, arrays = parsed.load(layout.name, layout.sources, from_text.flags(layout), cache,
                               partial(from_text.build, layout))
    count_line = layout.ids is Ids.COUNT_LINE

    def names(role: str, path: Optional[Path]) -> Names:
        if f"{role}.bytes" in arrays:
            return Names(partial(_packed, arrays[f"{role}.bytes"], arrays[f"{role}.offsets"]))
        assert path is not None  # a layout has maps, or its arrays have the names
        return Names(partial(text.read_name_map, path, layout.lines.delimiter, count_line))

    return KnowledgeGraph(layout.name, meta["n_entities"], meta["n_relations"], **_splits(arrays),
                          entity_map=layout.entity_map, relation_map=layout.relation_map,
                          entity_names=names("entity", layout.entity_map),
                          relation_names=names("relation", layout.relation_map),
                          ids_by_appearance=layout.ids is Ids.FIRST_APPEARANCE)


def _load_ogb(layout: ogb.OgbLayout, cache: parsed.Where) -> KnowledgeGraph:
    meta, arrays = parsed.load(layout.name, layout.sources, {"split": layout.split}, cache, partial(ogb.build, layout))
    named = layout.split is not None
    entities, relations = (Names(partial(ogb.read_names, layout, role)) if named else None
                           for role in ("entity", "relation"))
    return KnowledgeGraph(layout.name, meta["n_entities"], meta["n_relations"], **_splits(arrays),
                          entity_names=entities, relation_names=relations, candidates=ogb.candidates(layout))


def _splits(arrays: parsed.Arrays) -> dict:
    return {split: Triples(arrays[f"{split}.head"], arrays[f"{split}.relation"], arrays[f"{split}.tail"],
                           arrays.get(f"{split}.weight"))
            for split in SPLITS if f"{split}.head" in arrays}


def _packed(data: np.ndarray, offsets: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    return data, offsets
