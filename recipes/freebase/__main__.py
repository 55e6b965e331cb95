"""Freebase, or with --small a generated graph of 20,000 entities in Freebase's files."""

from pathlib import Path

from dglke_frugal.data.synthetic import SyntheticGraph, write
from recipes.recipe import Recipe


def small_graph(data: Path) -> None:
    """A skewed graph in Freebase's layout: counts on line 1 of the map files, integer triples h t r."""
    write(
        SyntheticGraph(n_entities=20_000, n_relations=100, n_train=200_000, n_valid=500, n_test=500, skew=1.0),
        data,
        "Freebase",
    )


# The rows go through cache and engine, as they do on a GPU.
SMALL = {
    "": (
        "--hidden_dim",
        "64",
        "--batch_size",
        "500",
        "--neg_sample_size",
        "100",
        "--max_step",
        "500",
        "--log_interval",
        "100",
        "--flush",
        "p2f",
        "--neg_sample_size_eval",
        "200",
    ),
    "transr": ("--hidden_dim", "20"),
    "rotate": ("--hidden_dim", "32"),
}
RECIPE = Recipe("recipes.freebase", small_graph, SMALL)

if __name__ == "__main__":
    RECIPE.main()
