"""Finds the train, valid and test file of a folder by their names, so that no flags need name them."""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List

from ..errors import InputError
from . import ogb
from .layouts import SPLITS, WITH_COUNTS, WITH_DICTIONARIES

BUILT_IN = tuple(dict.fromkeys((*WITH_DICTIONARIES, *WITH_COUNTS, *ogb.NAMES)))
ENDINGS = (".txt", ".tsv", ".csv", ".parquet", ".txt.gz", ".tsv.gz")
LOOKED_FOR = "train" + ", train".join(ENDINGS[:3]) + f" or train{ENDINGS[3]}"


def split_files(folder: Path) -> List[str]:
    """Names of the files that are the folder's train, valid and test, in this order; empty if it has no train file.

    Raises InputError if a split has files of several endings.
    """
    found = []
    for split in SPLITS:
        names = [split + ending for ending in ENDINGS if (folder / (split + ending)).is_file()]
        if len(names) > 1:
            raise InputError(f"{folder} has {' and '.join(names)}, and one of them is the {split} file; remove the "
                             "others, or name the files with --format and --data_files")
        found += names
    return found if found and found[0].startswith(SPLITS[0]) else []


def flags_of_path(path: Path) -> Dict[str, Any]:
    """The flags --dataset, --data_path, --format and --data_files of a file of triples, or of a folder with a train
    file and perhaps valid and test; empty of any other path. Raises InputError as split_files."""
    if path.exists() and not path.is_dir():  # also a pipe, which its reader refuses
        folder, files = path.parent, [f"./{path.name}" if path.name.startswith("-") else path.name]  # which is no flag
    else:
        folder, files = path, split_files(path)
    if not files:
        return {}
    return {"dataset": dataset_name(path), "data_path": str(folder), "format": "raw_udd_hrt", "data_files": files}


def dataset_name(path: Path) -> str:
    """The name of a data set that has none but its file's or folder's; never one of DGL-KE's."""
    name = Path(os.path.abspath(path)).name
    for ending in sorted(ENDINGS, key=len, reverse=True) if path.is_file() else ():
        name = name.removesuffix(ending) if name != ending else name
    name = re.sub(r"^-|[\x00-\x1f\x7f]", "_", name)[:45] or "graph"
    return f"{name}_files" if name in BUILT_IN else name
