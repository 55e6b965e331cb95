"""ogbl-wikikg2 and WikiKG90Mv2, or with --small a generated graph in the files of both."""

import gzip
from pathlib import Path

import numpy as np

from dglke_frugal.data.synthetic import SyntheticGraph, write
from dglke_frugal.files import replace_file
from recipes.recipe import SAMPLED, THROUGH_THE_STORE, Recipe

GRAPH = SyntheticGraph(n_entities=20_000, n_relations=100, n_train=200_000, n_valid=500, n_test=500, skew=1.0)


def small_graph(data: Path) -> None:
    """A skewed graph as WikiKG90Mv2's .npy files, whose test hides its tails, and as ogb's folder of wikikg2."""
    write(GRAPH, data, "wikikg90Mv2")
    write_wikikg2(data / "ogbl_wikikg2")


def write_wikikg2(folder: Path) -> None:
    """The graph in ogb's files: split/time/*.pt with arrays, and the number of entities in raw/."""
    import torch

    for part in ("raw", "split/time"):
        (folder / part).mkdir(parents=True)
    with replace_file(folder / "raw" / "num-node-list.csv.gz") as file:
        file.write(gzip.compress(f"{GRAPH.n_entities}\n".encode()))
    random = np.random.default_rng(0)
    for split, (begin, end) in GRAPH.splits.items():
        head, relation, tail = GRAPH.triples(begin, end)
        arrays = {"head": head, "relation": relation, "tail": tail}
        if split != "train":
            for candidates in ("head_neg", "tail_neg"):
                arrays[candidates] = random.integers(0, GRAPH.n_entities, (end - begin, 500))
        with replace_file(folder / "split" / "time" / f"{split}.pt") as file:
            torch.save(arrays, file)


RECIPE = Recipe("recipes.wikikg", small_graph, [*THROUGH_THE_STORE, *SAMPLED, "--eval_interval", "250"])

if __name__ == "__main__":
    RECIPE.main()
