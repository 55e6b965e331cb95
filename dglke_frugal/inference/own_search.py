"""The best entities by a user's own score function (models.TorchModel): all scores, by blocks, in torch."""

from __future__ import annotations

from typing import Callable

import numpy as np
import torch

from ..evaluation.best_rows import Found
from ..evaluation.model import EmbeddingModel, take_rows
from ..evaluation.own_model import scorer_of, scores_of_entities

_QUERIES = 32


class OwnSearch:
    """Searches among the entities `moves` (m,) of a user's own model."""

    def __init__(self, model: EmbeddingModel, moves: np.ndarray):
        self._model, self._scorer, self._moves = model, scorer_of(model), moves

    def best(
        self, side: str, stays: np.ndarray, relations: np.ndarray, k: int, score: Callable[[np.ndarray], np.ndarray]
    ) -> Found:
        """The k best places in `moves` for each query, and all that score as the last of them.

        score: from the function's scores, as float64, to those to rank by; monotone.
        """
        parts = []
        for begin in range(0, len(stays), _QUERIES):
            block = slice(begin, begin + _QUERIES)
            scores = scores_of_entities(self._scorer, self._model, side, stays[block], relations[block], self._moves)
            least = torch.topk(scores, min(k, scores.shape[1]), dim=1).values[:, -1:]
            query, row = (scores >= least).nonzero(as_tuple=True)
            parts.append((query.cpu().numpy() + begin, row.cpu().numpy(), scores[query, row].double().cpu().numpy()))
        query, row, keys = (np.concatenate(column) for column in zip(*parts))
        return Found(query, row, score(keys))


def own_scores(model: EmbeddingModel, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Scores (n,) float64 of triples given by ids (n,) each."""
    scorer, device = scorer_of(model), model.device or torch.device("cpu")
    out = np.empty(len(heads))
    for begin in range(0, len(heads), 1 << 12):
        block = slice(begin, begin + (1 << 12))
        rows = (torch.from_numpy(take_rows(table, ids[block])).to(device)
                for table, ids in ((model.entity, heads), (model.relation, relations), (model.entity, tails)))
        with torch.no_grad():
            out[block] = scorer.score(*rows).double().cpu().numpy()
    return out
