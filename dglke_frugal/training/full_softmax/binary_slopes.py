"""Binary cross-entropy of each query with each entity, another loss of KvsAll than the softmax.

With s_ij the score of entity j for query i, y_ij its label (targets.AllAnswers), E entities and l(x) = log(1 + e^x),
the loss is sum_i scale_i / E sum_j (l(s_ij) - y_ij s_ij). No score depends on the others, so each tile is processed
once.

torch's sigmoid and softplus round an element otherwise where a thread's part of a tensor ends, and sums of a single row
depend on threads; exp, log1p and sums_of_rows do not.
"""

from __future__ import annotations

from typing import Tuple

import torch

from .row_sums import sums_of_rows


def binary_slopes(scores: torch.Tensor, first: int, bound: float, targets: Tuple, scale: torch.Tensor) -> None:
    """d loss / d score in place of the scores (B, n) of the rows first .. first + n. bound: of scores, 0 for none;
    beyond it there is no slope. scale: (B,), divided by E."""
    beyond = scores.abs() > bound if bound else None
    rows, columns, on, off = _labels(targets, first, scores.shape[1])
    scores.neg_().exp_().add_(1.0).reciprocal_()
    if off is not None:
        scores.sub_(off[:, None])
    scores.index_put_((rows, columns), scores[rows, columns] - on[rows])
    scores.mul_(scale[:, None])
    if beyond is not None:
        scores.masked_fill_(beyond, 0.0)


def binary_loss(scores: torch.Tensor, first: int, bound: float, targets: Tuple) -> torch.Tensor:
    """Of each query (B,) with the rows first .. first + n: sum_j (l(s_ij) - y_ij s_ij)."""
    bounded = scores.clamp(-bound, bound) if bound else scores
    rows, columns, on, off = _labels(targets, first, scores.shape[1])
    loss = sums_of_rows(bounded.abs().neg_().exp_().log1p_().add_(bounded.clamp(min=0.0)))
    if off is not None:
        loss -= off * sums_of_rows(bounded)
    return loss.index_add_(0, rows, -on[rows] * bounded[rows, columns])


def _labels(targets: Tuple, first: int, columns: int):
    """(query, column) of the answers in a tile, their labels by query, and what every entity has besides, or None."""
    ids, begin, end, on, off = targets
    counts = end - begin
    rows = torch.repeat_interleave(torch.arange(len(begin)), counts)
    place = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows] + begin[rows]
    column = ids[place] - first
    inside = (column >= 0) & (column < columns)
    return rows[inside], column[inside], on, off
