"""The id maps of a raw_udd graph as files, `entities.tsv` and `relations.tsv`: one `id TAB name` per line."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List

from ..errors import InputError
from ..files import replace_file
from .graph import KnowledgeGraph, Names

_TOGETHER = 1 << 16  # lines


def keep_name_maps(graph: KnowledgeGraph, folder: Path, data_folder: Path) -> KnowledgeGraph:
    """Write the maps of a graph whose ids are those of first appearance into a run's folder, all or nothing each.

    As with DGL-KE they are next to the data too, unless that folder cannot be written or has other files of these
    names, which stay as they are; of those a line is printed. Other graphs have maps of their own: nothing is written.

    Returns the graph with the run's files as its maps. Raises InputError if the run's folder cannot be written.
    """
    if not graph.ids_by_appearance:
        return graph
    names = {"entities.tsv": graph.entity_names, "relations.tsv": graph.relation_names}
    for file, of_file in names.items():
        if not _holds(folder / file, of_file):
            _write(folder / file, of_file)
    _write_beside_data(names, folder, data_folder)
    return replace(graph, entity_map=folder / "entities.tsv", relation_map=folder / "relations.tsv")


def name_map_bytes(graph: KnowledgeGraph) -> int:
    """Bytes that keep_name_maps writes into a run's folder, at most."""
    if not graph.ids_by_appearance:
        return 0
    every = (graph.entity_names, graph.relation_names)
    return sum(len(names.packed[0]) + len(names) * (len(str(len(names))) + 2) for names in every)


def map_lines(names: Names) -> Iterator[bytes]:
    """The content of a map file, block by block."""
    data, offsets = names.packed
    for first in range(0, len(names), _TOGETHER):
        bounds = offsets[first : first + _TOGETHER + 1].tolist()
        chunk, start = data[bounds[0] : bounds[-1]].tobytes(), bounds[0]
        yield b"".join(b"%d\t%s\n" % (i, chunk[begin - start : end - start])
                       for i, (begin, end) in enumerate(zip(bounds, bounds[1:]), first))


def white_space_lines(graph: KnowledgeGraph) -> List[str]:
    """That names differ in nothing but white space at their ends, and so are of different rows."""
    lines = []
    for what, names in (("entities", graph.entity_names), ("relations", graph.relation_names)):
        pairs = names.told_apart_by_white_space()
        if pairs:
            lines.append(f"{len(pairs):,} of the names of {what} differ only in white space at their ends from another "
                         f"one, as {pairs[0][0]!r} from {pairs[0][1]!r}; they are {what} of their own")
    return lines


def _write_beside_data(names: Dict[str, Names], folder: Path, data_folder: Path) -> None:
    there = [file for file in names if (data_folder / file).exists() or (data_folder / file).is_symlink()]
    others = [file for file in there if not _holds(data_folder / file, names[file])]
    if others:
        are, stay = ("is", "stays as it is") if len(others) == 1 else ("are", "stay as they are")
        print(f"{' and '.join(str(data_folder / file) for file in others)} {are} not of this run and {stay}; the ids "
              f"and names of this run are in {folder}")
        return
    for file in names.keys() - there:
        try:
            _write(data_folder / file, names[file])
        except InputError:
            return  # a folder that is only read: the run has its maps


def _write(path: Path, names: Names) -> None:
    with replace_file(path) as file:
        file.writelines(map_lines(names))


def _holds(path: Path, names: Names) -> bool:
    """Whether the file is there and has just these names."""
    try:
        if not path.is_file():  # to open a pipe waits for its writer
            return False
        with open(path, "rb") as file:
            return all(file.read(len(lines)) == lines for lines in map_lines(names)) and not file.read(1)
    except OSError:
        return False
