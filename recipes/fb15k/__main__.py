"""FB15k, or with --small the families of datasets/families.py in FB15k's files."""

from pathlib import Path

from datasets import families
from dglke_frugal.files import replace_file
from recipes.recipe import Recipe


def small_graph(data: Path) -> None:
    """Families by name, with the two .dict files (id TAB name) of a built-in data set."""
    splits = families.generate(people=1500)
    families.write(data / "FB15k", splits)
    triples = [triple for split in splits.values() for triple in split]
    names = {
        "entities": {name for head, _, tail in triples for name in (head, tail)},
        "relations": {relation for _, relation, _ in triples},
    }
    for file, found in names.items():
        with replace_file(data / "FB15k" / f"{file}.dict", "w") as lines:
            lines.writelines(f"{number}\t{name}\n" for number, name in enumerate(sorted(found)))


RECIPE = Recipe("recipes.fb15k", small_graph)

if __name__ == "__main__":
    RECIPE.main()
