"""The loss of a step in torch operations and its derivatives by the scores, in closed form: twin of csrc/loss, for the
step that autograd differentiates on the CPU. Formulas: csrc/loss/loss.h."""
from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch
from torch.nn.functional import softplus

from .losses import Losses
from .step_config import LossConfig


class ScoreSlopes(NamedTuple):
    """What the gradients of a step start from, and what its log lines end with."""

    positive: torch.Tensor  # (B,) d loss / d score of each positive
    negative: torch.Tensor  # (B, N) d loss / d score of each negative
    positive_loss: Optional[torch.Tensor]  # () float64, mean over the positives; None for a joint loss
    negative_loss: torch.Tensor  # () float64; of a joint loss all of it

    def losses(self, regularization: float) -> Losses:
        """What the step reports, on the host."""
        negative = self.negative_loss.item()
        if self.positive_loss is None:
            return Losses(0.0, 0.0, regularization, negative + regularization)
        positive = self.positive_loss.item()
        return Losses(positive, negative, regularization, 0.5 * (positive + negative) + regularization)


def _elementwise(loss: LossConfig, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """l(x) and its derivative. The derivative of Hinge at its kink is -1, as in DGL-KE."""
    if loss.genre == "Hinge":
        rest = loss.margin - x
        return rest.clamp(min=0), -(rest >= 0).to(x.dtype)
    return softplus(-x), -torch.sigmoid(-x)


def score_slopes(loss: LossConfig, positive: torch.Tensor, negative: torch.Tensor,
                 weight: Optional[torch.Tensor]) -> ScoreSlopes:
    """positive (B,), negative (B, N), weight (B,): edge importance, or None for 1."""
    count, negatives = negative.shape
    mean = (1.0 if loss.joint else 0.5) / count
    scale = mean if weight is None else mean * weight[:, None]

    def average(each: torch.Tensor) -> torch.Tensor:
        return (each if weight is None else weight * each).double().mean()

    if loss.pairwise:
        losses, slopes = _elementwise(loss, positive[:, None] - negative)
        slopes *= scale / negatives if weight is None else scale.div_(negatives)
        return ScoreSlopes(slopes.sum(-1), -slopes, None, average(losses.mean(-1)))

    if loss.genre == "Softmax":
        log_sum = torch.logaddexp(positive, negative.logsumexp(-1))
        slopes = (negative - log_sum[:, None]).exp_().mul_(scale)
        return ScoreSlopes(-slopes.sum(-1), slopes, None, average(log_sum - positive))

    losses, slopes = _elementwise(loss, -negative)
    if loss.adversarial:  # the weights count as constants
        share = (loss.temperature * negative).softmax(-1)
        negative_loss, slopes = (share * losses).sum(-1), slopes.mul_(share)
    else:
        negative_loss, slopes = losses.mean(-1), slopes.div_(negatives)
    positive_loss, positive_slope = _elementwise(loss, positive)
    of_positive = positive_slope * (scale if weight is None else scale[:, 0])
    return ScoreSlopes(of_positive, slopes.mul_(scale).neg_(), average(positive_loss), average(negative_loss))


def penalty(loss: LossConfig, rows: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """coefficient * sum |x|^norm of each of `rows` (n, dim), as (n,), and its gradient (n, dim)."""
    norm, coefficient = float(loss.regularization_norm), loss.regularization_coefficient
    magnitude = rows.abs()
    if norm == 3.0:
        slope = magnitude * rows
    elif norm == 2.0:
        slope = rows.clone()
    elif norm == 1.0:
        slope = rows.sign()
    else:
        slope = magnitude.pow(norm - 1.0).mul_(rows.sign()).masked_fill_(magnitude == 0, 0.0)
    return coefficient * (slope * rows).sum(-1), slope.mul_(coefficient * norm)


def is_regularized(loss: LossConfig) -> bool:
    """Whether the loss has a penalty."""
    return loss.regularization_coefficient > 0 and loss.regularization_norm > 0
