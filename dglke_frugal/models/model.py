"""What a model must say about itself, and the dimensions and start values that DGL-KE derives from its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..errors import InputError

INIT_EPSILON = 2.0  # DGL-KE's EMB_INIT_EPS


@dataclass(frozen=True)
class RowDims:
    """Floats of one row of each table; projection only for TransR."""

    entity: int
    relation: int
    projection: Optional[int] = None


class Model:
    """A model that csrc/models computes. Subclasses give the name and what differs; instances have no state.

    Attributes:
        name: DGL-KE's name for the model, as --model_name takes it.
        aliases: other names for it.
        similarity: how negatives are compared: "dot", "l2", "l1" or "modulus".
    """

    name: str
    aliases: tuple[str, ...] = ()
    similarity: str

    def dims(self, hidden_dim: int, double_entity: bool = False, double_relation: bool = False) -> RowDims:
        """Row lengths for --hidden_dim, --double_ent and --double_rel. Raises InputError if they cannot work."""
        if hidden_dim < 1:
            raise InputError(f"--hidden_dim must be at least 1, not {hidden_dim}")
        entity = hidden_dim * (2 if double_entity else 1)
        relation = hidden_dim * (2 if double_relation else 1)
        self.check(entity, relation)
        return self.rows(entity, relation)

    def check(self, entity: int, relation: int) -> None:
        """Raise InputError unless the model can work with these dimensions. Here: they must be equal."""
        if entity != relation:
            raise InputError(
                f"{self.name} needs entity and relation rows of the same length, not {entity} and {relation}; "
                "give both --double_ent and --double_rel or neither"
            )

    def rows(self, entity: int, relation: int) -> RowDims:
        """Row lengths, once the dimensions have been checked."""
        return RowDims(entity, relation)

    def embedding_range(self, gamma: float, hidden_dim: int) -> float:
        """Entity and relation rows start uniform in plus and minus this: (gamma + 2) / hidden_dim."""
        return (gamma + INIT_EPSILON) / hidden_dim

    def projection_range(self) -> float:
        """Projection rows, if there are any, start uniform in plus and minus this."""
        return 1.0


def require_even(name: str, entity: int) -> None:
    """Raise InputError if rows that are two halves have an odd length."""
    if entity % 2:
        raise InputError(f"{name} splits entity rows into two halves, so their length must be even, not {entity}")
