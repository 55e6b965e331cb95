"""Ranking with a user's own score function (models.TorchModel): all scores, by blocks, in torch."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np
import torch

from ..models import find_model
from .known_triples import KnownTriples
from .model import HEAD, EmbeddingModel, take_rows
from .ranking import Comparison

_BLOCK_BYTES = 1 << 26  # of candidate rows, repeated for each query of a block
_QUERIES = 32


def rank_own_model(model: EmbeddingModel, side: str, triples: Tuple, known: Optional[KnownTriples]) -> Comparison:
    """Compares triples with all entities in place of `side`, by float32 scores as the function gives them."""
    scorer = find_model(model.name)
    scorer.gamma, scorer.range = model.gamma, scorer.embedding_range(model.gamma, model.hidden_dim)
    heads, relations, tails = (np.asarray(column, dtype=np.int64) for column in triples)
    stays, moves = (tails, heads) if side == HEAD else (heads, tails)
    better, equal = np.zeros(len(stays), np.int64), np.zeros(len(stays), np.int64)
    rows = max(1, _BLOCK_BYTES // (4 * model.entity.shape[1] * _QUERIES))
    for begin in range(0, len(stays), _QUERIES):
        block = slice(begin, begin + _QUERIES)
        fixed = torch.from_numpy(take_rows(model.entity, stays[block]))[:, None]
        relation = torch.from_numpy(take_rows(model.relation, relations[block]))[:, None]

        def score(candidates):
            with torch.no_grad():
                ends = (candidates, fixed) if side == HEAD else (fixed, candidates)
                return scorer.score(ends[0], relation, ends[1]).numpy()

        true = score(torch.from_numpy(take_rows(model.entity, moves[block]))[:, None])
        scores = np.concatenate(
            [
                score(
                    torch.from_numpy(take_rows(model.entity, np.arange(first, min(first + rows, len(model.entity)))))[
                        None
                    ]
                )
                for first in range(0, len(model.entity), rows)
            ],
            axis=1,
        )
        counts = np.ones(scores.shape, dtype=bool)
        counts[np.arange(len(true)), moves[block]] = False
        if known is not None:
            answers = (known.heads if side == HEAD else known.tails)(stays[block], relations[block])
            counts[np.repeat(np.arange(len(true)), np.diff(answers.pointers)), answers.items] = False
        better[block] = ((scores > true) & counts).sum(axis=1)
        equal[block] = ((scores == true) & counts).sum(axis=1)
    return Comparison(better, equal, 0)
