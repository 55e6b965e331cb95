"""Small graphs in the files of real ones, for trying a recipe."""

from pathlib import Path
from typing import Callable

from datasets import families
from dglke_frugal.files import replace_file


def families_as(dataset: str) -> Callable[[Path], None]:
    """What writes families by name below a folder, with the two .dict files (id TAB name) of a built-in data set."""

    def write(data: Path) -> None:
        splits = families.generate(people=1500)
        families.write(data / dataset, splits)
        triples = [triple for split in splits.values() for triple in split]
        names = {"entities": {name for head, _, tail in triples for name in (head, tail)},
                 "relations": {relation for _, relation, _ in triples}}
        for file, found in names.items():
            with replace_file(data / dataset / f"{file}.dict", "w") as lines:
                lines.writelines(f"{number}\t{name}\n" for number, name in enumerate(sorted(found)))

    return write
