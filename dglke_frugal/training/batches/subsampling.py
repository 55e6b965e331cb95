"""Weights by which frequent queries count less, as word2vec's subsampling of frequent words: factors of the
losses of a positive and of its negatives.

#(h, r) is how many training triples have this head and relation, #(r, t) the same of tails, and f = # + 3:
    base  1 / sqrt(f(h, r) + f(r, t))
    uniq  1 / sqrt(f(h, r)) where negatives replace tails, 1 / sqrt(f(r, t)) where they replace heads
With T(r) the training triples of a relation divided by its distinct heads, and H(r) by its distinct tails:
    bernoulli  2 H / (T + H) where negatives replace tails, 2 T / (T + H) where they replace heads
Source: codes/dataloader.py of the RotatE repository (DeepGraphLearning/KnowledgeGraphEmbedding), whose counts begin
with 4; uniq: Kamigaito and Hayashi, Comprehensive Analysis of Negative Sampling in Knowledge Graph Representation
Learning, ICML 2022, eq. 13, and their code. They divide a batch's losses by the sum of its weights; here weights are
scaled so that their mean over the graph is 1, and losses divided by the size of the batch. bernoulli: Wang et al.,
Knowledge Graph Embedding by Translating on Hyperplanes, AAAI 2014, who replace heads with the probability T / (T + H);
here every triple has both, with weights that are these probabilities, so that the expectation of a gradient is theirs.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from ...data import KnowledgeGraph, Triples
from ...options import TrainConfig

BEFORE = 3  # added to counts


def triple_weights(config: TrainConfig, graph: KnowledgeGraph) -> Optional[np.ndarray]:
    """Factors of the losses of each training triple: edge importance or subsampling weights, as Sampler takes
    them; None for 1."""
    how = config.loss.subsampling
    return graph.train.weight if how == "none" else subsampling_weights(how, graph.train, graph.n_relations)


def subsampling_weights(how: str, triples: Triples, n_relations: int) -> np.ndarray:
    """float32 with a mean of 1: (E,) for "base"; else (2, E), where tails are replaced and where heads are."""
    if how == "bernoulli":
        heads, tails = (_distinct(entity, triples.relation, n_relations) for entity in (triples.head, triples.tail))
        # T / H is the distinct tails of a relation over its heads: the number of its triples cancels out.
        return np.stack([2 * heads / (heads + tails), 2 * tails / (heads + tails)]).astype(np.float32)
    of_head, of_tail = (_frequency(entity, triples.relation, n_relations) for entity in (triples.head, triples.tail))
    frequency = of_head + of_tail if how == "base" else np.stack([of_head, of_tail])
    weight = 1 / np.sqrt(frequency)
    return (weight / weight.mean(axis=-1, keepdims=True)).astype(np.float32)


def _distinct(entity: np.ndarray, relation: np.ndarray, n_relations: int) -> np.ndarray:
    """(E,) float64: distinct entities of each triple's relation."""
    pairs = np.unique(entity.astype(np.int64) * n_relations + relation)
    return np.bincount(pairs % n_relations, minlength=n_relations)[relation].astype(np.float64)


def _frequency(entity: np.ndarray, relation: np.ndarray, n_relations: int) -> np.ndarray:
    """(E,) float64: of each triple's pair of an entity and its relation."""
    pair = entity.astype(np.int64) * n_relations + relation
    _, number, count = np.unique(pair, return_inverse=True, return_counts=True)
    return count[number] + float(BEFORE)
