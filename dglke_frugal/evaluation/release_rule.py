"""The filter as the released DGL-KE 0.1.2 has it: known answers are not left out, their scores are lowered by one.

It compares log-sigmoids of scores and adds -1 to those of known triples, so that a known triple which scores much
better than the tested one still counts against it. The unreleased DGL-KE (git HEAD) leaves them out, as do we by
default; this is for comparing with numbers of the release.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from .. import _native
from .known_triples import KnownAnswers, KnownTriples
from .model import EmbeddingModel, columns_of, take_rows
from .ranking import query_vectors

_PENALTY = np.float32(-1.0)
_BLOCK = 2048  # triples whose known answers are scored together


def known_still_better(model: EmbeddingModel, side: str, triples: Tuple, known: KnownTriples) -> np.ndarray:
    """Per triple, how many known answers in place of `side` still score at least as well after the penalty: (n,) int64.

    The triple itself is one of them. It loses against itself, except where corrupted triples are scored by another
    formula (EmbeddingModel.compares_two_formulas).
    """
    stays, relations, moves = columns_of(side, triples)
    counts = np.zeros(len(stays), np.int64)
    order = np.argsort(relations, kind="stable")
    every_answer = KnownAnswers(side, stays, relations, known)
    begin = 0
    while begin < len(order):
        members = order[begin : begin + _BLOCK]
        if model.projects:  # one relation at a time, since the candidate rows change with it
            members = members[relations[members] == relations[members[0]]]
        begin += len(members)
        fixed, relation, true = stays[members], relations[members], moves[members]
        answers = every_answer.of(members)
        triple = np.repeat(np.arange(len(members)), np.diff(answers.pointers))
        distinct, position = np.unique(np.concatenate([true, answers.items]), return_inverse=True)
        rows = model.candidate_rows(take_rows(model.entity, distinct), int(relation[0]))
        vectors, true_vectors = query_vectors(model, side, take_rows(model.entity, fixed), relation)
        everyone = np.arange(len(members))
        true_scores = model.scores(
            _native.pair_keys(model.operation, true_vectors, rows, everyone, position[: len(members)]))
        keys = _native.pair_keys(model.operation, vectors, rows, triple, position[len(members) :])
        better = _log_sigmoid(model.scores(keys)) + _PENALTY >= _log_sigmoid(true_scores)[triple]
        counts[members] = np.bincount(triple[better], minlength=len(members))
    return counts


def _log_sigmoid(scores: np.ndarray) -> np.ndarray:
    return np.minimum(scores, 0) - np.log1p(np.exp(-np.abs(scores)))
