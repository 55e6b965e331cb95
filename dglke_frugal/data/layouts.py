"""Which files a data set consists of and how ids come about in each of DGL-KE's layouts."""
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import permutations
from pathlib import Path
from typing import Dict, Optional, Sequence

from ..errors import InputError
from .text import LineFormat

SPLITS = ("train", "valid", "test")
ORDERS = tuple("".join(order) for order in permutations("hrt"))
FORMATS = ("built_in", *(f"udd_{order}" for order in ORDERS), *(f"raw_udd_{order}" for order in ORDERS))

WITH_DICTIONARIES = ("FB15k", "FB15k-237", "wn18", "wn18rr", "wikikg2", "biokg")
WITH_COUNTS = ("Freebase",)


class Ids(Enum):
    """Where the ids of a layout come from."""

    MAP_FILE = "triples by name, ids in the map files"
    COUNT_LINE = "triples by id, number of ids on the first line of the map files"
    MAP_LINES = "triples by id, one line of the map files per id"
    FIRST_APPEARANCE = "triples by name, ids in the order in which names first appear"


@dataclass(frozen=True)
class TextLayout:
    """The files of a data set in text form."""

    name: str
    ids: Ids
    lines: LineFormat
    splits: Dict[str, Path]            # "train", and perhaps "valid" and "test"
    entity_map: Optional[Path] = None  # None only for FIRST_APPEARANCE
    relation_map: Optional[Path] = None

    @property
    def sources(self) -> Sequence[Path]:
        """All files that decide what is read."""
        return [path for path in (self.entity_map, self.relation_map, *self.splits.values()) if path is not None]


def check_format(format: str) -> None:
    """Raise InputError for a --format that there is not."""
    if format not in FORMATS:
        raise InputError(f"unknown --format {format!r}; it must be built_in, or udd_ or raw_udd_ followed by the order "
                         f"of head, relation, tail ({', '.join(ORDERS)})")


def built_in_layout(dataset: str, folder: Path) -> TextLayout:
    """One of DGL-KE's own data sets, in `folder`."""
    splits = {split: folder / f"{split}.txt" for split in SPLITS}
    if dataset in WITH_COUNTS:
        return TextLayout(dataset, Ids.COUNT_LINE, LineFormat("htr", exact=True), splits,
                          folder / "entity2id.txt", folder / "relation2id.txt")
    return TextLayout(dataset, Ids.MAP_FILE, LineFormat("hrt"), splits,
                      folder / "entities.dict", folder / "relations.dict")


def user_layout(dataset: str, folder: Path, format: str, files: Optional[Sequence[str]], delimiter: str,
                weighted: bool) -> TextLayout:
    """A user's own data set: `files` of `folder` in a udd or raw_udd format."""
    raw = format.startswith("raw_udd_")
    maps = 0 if raw else 2
    files = list(files or ())
    if not maps + 1 <= len(files) <= maps + 3:
        before = "" if raw else "entity file, relation file, "
        raise InputError(f"--format {format} takes {maps + 1} to {maps + 3} --data_files, not {len(files)}: "
                         f"{before}train file and, if wanted, valid file and test file")
    if not delimiter or "\n" in delimiter or "\r" in delimiter:
        raise InputError(f"--delimiter {delimiter!r} cannot separate columns; give a character such as ',' or a tab")
    paths = [folder / name for name in files]
    splits = dict(zip(SPLITS, paths[maps:]))
    if len(splits) == 2 and not paths[-1].name.startswith("valid"):  # one held-out file is for the test
        splits["test"] = splits.pop("valid")
    lines = LineFormat(format[-3:], delimiter, weighted)
    if raw:
        return TextLayout(dataset, Ids.FIRST_APPEARANCE, lines, splits)
    return TextLayout(dataset, Ids.MAP_LINES, lines, splits, paths[0], paths[1])
