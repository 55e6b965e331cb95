"""Freebase, or with --small a generated graph of 20,000 entities in Freebase's files."""

from pathlib import Path

from dglke_frugal.data.synthetic import SyntheticGraph, write
from recipes.recipe import SAMPLED, THROUGH_THE_STORE, Recipe


def small_graph(data: Path) -> None:
    """A skewed graph in Freebase's layout: counts on line 1 of the map files, integer triples h t r."""
    write(SyntheticGraph(n_entities=20_000, n_relations=100, n_train=200_000, n_valid=500, n_test=500, skew=1.0), data,
          "Freebase")


RECIPE = Recipe("recipes.freebase", small_graph, [*THROUGH_THE_STORE, *SAMPLED])

if __name__ == "__main__":
    RECIPE.main()
