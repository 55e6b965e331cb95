"""Random models and graphs for tests."""

import numpy as np

from dglke_frugal.evaluation import EmbeddingModel

NAMES = ("TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "SimplE", "RESCAL", "TransR")


BY_RULE = [(name, "textbook") for name in NAMES] + [("RESCAL", "dglke"), ("TransR", "dglke")]


def random_model(name, entities=61, relations=5, dim=10, seed=0, coarse=False, rule="textbook"):
    """A model with random rows; `coarse` rows are small integers, so that ties abound and sums are exact."""
    rng = np.random.default_rng(seed)

    def table(rows, columns, scale=1.0):
        if coarse:
            return rng.integers(-1, 2, (rows, columns)).astype(np.float32)
        return (scale * rng.normal(size=(rows, columns))).astype(np.float32)

    relation_dim = {"RotatE": dim // 2, "RESCAL": dim * dim, "TransR": 6}.get(name, dim)
    projection = table(relations, dim * relation_dim, 0.5) if name == "TransR" else None
    return EmbeddingModel(name, 3.0, dim // 2 if name == "RotatE" else dim, table(entities, dim),
                          table(relations, relation_dim), projection, score_rule=rule)


def random_triples(model, count, seed=1):
    """(heads, relations, tails) without duplicates, at most `count` of them."""
    rng = np.random.default_rng(seed)
    rows = np.stack(
        [rng.integers(0, len(model.entity), count),
         rng.integers(0, len(model.relation), count),
         rng.integers(0, len(model.entity), count)],
        axis=1)
    return tuple(np.unique(rows, axis=0).T)
