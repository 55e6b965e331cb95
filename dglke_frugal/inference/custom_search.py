"""The best entities by a custom score function (models.TorchModel): all scores, by blocks, in torch."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..evaluation.best_rows import Found
from ..evaluation.model import EmbeddingModel
from ..evaluation.custom_model import scorer_of, scores_of_entities

_QUERIES = 32


class CustomSearch:
    """Searches among the entities `moves` (m,) of a custom model."""

    def __init__(self, model: EmbeddingModel, moves: np.ndarray):
        self._model, self._scorer, self._moves = model, scorer_of(model), moves

    def best(self, side: str, stays: np.ndarray, relations: np.ndarray, k: int,
             score: Callable[[np.ndarray], np.ndarray]) -> Found:
        """The k best places in `moves` for each query, and all that score as the last of them.

        score: from the function's scores, as float64, to those to rank by; monotone.
        """
        parts = []
        for begin in range(0, len(stays), _QUERIES):
            block = slice(begin, begin + _QUERIES)
            scores = scores_of_entities(self._scorer, self._model, side, stays[block], relations[block], self._moves)
            scores = score(scores.double().cpu().numpy())  # by which ties are found, too
            kth = min(k, scores.shape[1])
            least = -np.partition(-scores, kth - 1, axis=1)[:, kth - 1 : kth]
            query, row = np.nonzero(scores >= least)
            parts.append((query + begin, row, scores[query, row]))
        return Found(*(np.concatenate(column) for column in zip(*parts)))
