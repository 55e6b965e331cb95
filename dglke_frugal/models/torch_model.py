"""A score function in torch, which autograd differentiates: a custom one, named MODULE:CLASS, or one of the package."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from ..errors import InputError, first_line
from .model import Model, RowDims

if TYPE_CHECKING:
    import torch


class TorchModel(Model):
    """Subclass this, give score, and name it as MODULE:CLASS wherever a model's name is asked for.

    check and rows of Model may be overridden where entity and relation rows differ in length. MODULE:CLASS makes it
    without arguments, MODULE:CLASS(size=3) with them; gamma and embedding_range are set before the first score.

    A class that is a torch.nn.Module as well (class Mine(TorchModel, torch.nn.Module)) may have parameters and buffers
    of its own. Parameters are trained by torch's Adagrad with the learning rate of the run, on the CPU in one process;
    what state_dict() gives is saved with the run, in DATASET_MODEL_model.npz, and is there when the run is resumed,
    ranked or asked.

    Attributes:
        gamma: the margin (--gamma).
        range: entity and relation rows start uniform in plus and minus this.
    """

    similarity = "own"
    gamma: float = 12.0
    range: float = 1.0

    def dims(self, hidden_dim: int, double_entity: bool = False, double_relation: bool = False) -> RowDims:
        """As Model. Raises InputError also for what a subclass's check or rows does that no table can have."""
        try:
            found = super().dims(hidden_dim, double_entity, double_relation)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"check() or rows() of the model {self.name} failed: {type(error).__name__}: "
                             f"{first_line(error)}; raise dglke_frugal.errors.InputError for lengths that do not go "
                             "together") from error
        try:
            lengths = operator.index(found.entity), operator.index(found.relation)
        except (AttributeError, TypeError):
            lengths = (0, 0)
        if min(lengths) < 1 or found.projection is not None:
            raise InputError(f"rows() of the model {self.name} returns {found!r}; return RowDims(entity, relation), "
                             "two whole numbers of at least 1")
        return RowDims(*lengths)

    def score(self, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
        """Scores, higher is better.

        Args:
            head, tail: float32 (..., entity_dim).
            relation: float32 (..., relation_dim). The leading dimensions of the three broadcast against each other.

        Returns:
            float32, the broadcast leading dimensions.
        """
        raise NotImplementedError
