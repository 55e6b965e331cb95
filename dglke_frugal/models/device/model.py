"""One model on a device: what a query is, and its gradients."""
from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Optional, Tuple

import torch

from ..registry import built_in_model


@dataclass(frozen=True)
class ModelShape:
    """Row lengths in floats, and the constants of the scores. score_rule: see score_rule.py."""

    entity_dim: int
    relation_dim: int
    gamma: float
    embedding_range: float
    score_rule: str = "textbook"


class Positives(NamedTuple):
    """The rows of the positives: all (B, ...). The corrupted entity is the side that negatives replace.

    Where a relation or projection is a matrix, all of them may be matrices.TableMatrices instead.
    """

    fixed: torch.Tensor
    relation: torch.Tensor
    corrupted: torch.Tensor
    corrupt_head: bool
    projection: Optional[torch.Tensor] = None  # TransR

    @property
    def head(self) -> torch.Tensor:
        """Rows of the heads."""
        return self.corrupted if self.corrupt_head else self.fixed

    @property
    def tail(self) -> torch.Tensor:
        """Rows of the tails."""
        return self.fixed if self.corrupt_head else self.corrupted


class DeviceModel:
    """csrc/models/model.h on a device: of all models what scores against all entities need, of models with matrices
    (matrices.py) also the scores of positives."""

    def __init__(self, shape: ModelShape, stream: int):
        """stream: what kernels of ours take as their stream."""
        self.shape, self.stream = shape, stream

    def query(self, x: Positives) -> torch.Tensor:
        """(B, entity_dim): what candidates in the corrupted entity's place are compared with."""
        raise NotImplementedError

    def of_query(self, x: Positives, gradient: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Gradients (fixed, relation), given d loss / d query."""
        raise NotImplementedError


def make_device_model(name: str, shape: ModelShape, stream: int) -> DeviceModel:
    """The torch operations of the built-in model of that name."""
    module, class_name = built_in_model(name).reference.split(".")
    return getattr(import_module(f"{__package__}.{module}"), class_name)(shape, stream)
