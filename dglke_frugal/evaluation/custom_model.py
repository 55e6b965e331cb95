"""Ranking with a custom score function (models.TorchModel): all scores, by blocks, in torch."""

from __future__ import annotations

import math
from typing import Optional, Tuple

import numpy as np
import torch

from ..models import TorchModel, find_model
from ..models.custom_random import random_numbers_of
from ..models.custom_scores import diverged_scores, rankable_scores
from .known_triples import KnownAnswers, KnownTriples
from .model import HEAD, EmbeddingModel, columns_of, take_rows
from .ranking import Comparison

_BLOCK_BYTES = {"cpu": 1 << 26, "cuda": 1 << 27}  # of candidate rows, repeated for each query of a block
_QUERIES = 32


def rank_custom_model(model: EmbeddingModel, side: str, triples: Tuple, known: Optional[KnownTriples],
                      done=lambda count: None) -> Comparison:
    """Compares triples with all entities in place of `side`, by float32 scores as the function gives them.

    The score of the true entity is the one that it gets among the candidates, so that equal rows tie. done: is told how
    many more triples are compared.

    Raises Diverged: a score is NaN or plus infinity, or that of a true triple is infinite.
    """
    device = model.device or torch.device("cpu")
    scorer = scorer_of(model)
    stays, relations, moves = columns_of(side, triples)
    answers = known and KnownAnswers(side, stays, relations, known)
    better, equal = np.zeros(len(stays), np.int64), np.zeros(len(stays), np.int64)
    for begin in range(0, len(stays), _QUERIES):
        block = slice(begin, begin + _QUERIES)
        true = torch.tensor(moves[block], device=device)[:, None]
        scores = scores_of_entities(scorer, model, side, stays[block], relations[block])
        of_true = scores.gather(1, true)
        if not of_true.isfinite().all():
            raise diverged_scores(scorer, -math.inf)  # of a triple that there is
        scores.scatter_(1, true, torch.nan)  # neither better nor equal
        if answers is not None:
            known_here = answers.of(np.arange(begin, begin + len(true)))
            query = np.repeat(np.arange(len(true)), np.diff(known_here.pointers))
            scores[torch.from_numpy(query).to(device), torch.from_numpy(known_here.items).to(device)] = torch.nan
        better[block] = (scores > of_true).sum(dim=1).cpu().numpy()
        equal[block] = (scores == of_true).sum(dim=1).cpu().numpy()
        done(len(true))
    return Comparison(better, equal, 0)


def scorer_of(model: EmbeddingModel) -> TorchModel:
    """The user's score function, as it was trained."""
    scorer = model.scorer or find_model(model.name)
    if isinstance(scorer, torch.nn.Module):
        scorer.eval().to(model.device or "cpu")
    scorer.gamma, scorer.range = model.gamma, scorer.embedding_range(model.gamma, model.hidden_dim)
    return scorer


@torch.no_grad()
def scores_of_entities(scorer: TorchModel, model: EmbeddingModel, side: str, stays: np.ndarray, relations: np.ndarray,
                       among: Optional[np.ndarray] = None) -> torch.Tensor:
    """Scores (queries, candidates) float32, on the device, of entities in place of `side`: all, or those of ids
    `among`. Raises Diverged for NaN and plus infinity."""
    device = model.device or torch.device("cpu")
    fixed, relation = (torch.from_numpy(take_rows(table, ids)).to(device)[:, None]
                       for table, ids in ((model.entity, stays), (model.relation, relations)))
    rows = max(1, _BLOCK_BYTES[device.type] // (4 * model.entity.shape[1] * _QUERIES))
    parts = []
    count = len(model.entity) if among is None else len(among)
    for first in range(0, count, rows):
        block = model.entity[first : first + rows] if among is None else take_rows(
            model.entity, among[first : first + rows])
        if isinstance(block, np.ndarray):
            block = torch.from_numpy(np.array(block, np.float32)).to(device)
        ends = (block[None], fixed) if side == HEAD else (fixed, block[None])
        with random_numbers_of(device=device):
            parts.append(rankable_scores(scorer, ends[0], relation, ends[1]))
    return torch.cat(parts, dim=1)


def scores_of_triples(model: EmbeddingModel, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Scores (n,) float64 of triples given by ids (n,) each. Raises Diverged for NaN and plus infinity."""
    scorer, device = scorer_of(model), model.device or torch.device("cpu")
    out = np.empty(len(heads))
    for begin in range(0, len(heads), 1 << 12):
        block = slice(begin, begin + (1 << 12))
        rows = (torch.from_numpy(take_rows(table, ids[block])).to(device)
                for table, ids in ((model.entity, heads), (model.relation, relations), (model.entity, tails)))
        with torch.no_grad(), random_numbers_of(device=device):
            out[block] = rankable_scores(scorer, *rows).double().cpu().numpy()
    return out
