"""A model of the user's own: a score function in torch, which autograd differentiates."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Model

if TYPE_CHECKING:
    import torch


class TorchModel(Model):
    """Subclass this, give score, and name it as MODULE:CLASS wherever a model's name is asked for.

    check and rows of Model may be overridden where entity and relation rows differ in length. The class is made without
    arguments; gamma and embedding_range are set before the first score.

    Attributes:
        gamma: the margin (--gamma).
        range: entity and relation rows start uniform in plus and minus this.
    """

    similarity = "own"
    gamma: float = 12.0
    range: float = 1.0

    def score(self, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
        """Scores, higher is better.

        Args:
            head, tail: float32 (..., entity_dim).
            relation: float32 (..., relation_dim). The leading dimensions of the three broadcast against each other.

        Returns:
            float32, the broadcast leading dimensions.
        """
        raise NotImplementedError
