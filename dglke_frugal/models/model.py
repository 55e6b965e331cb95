"""The description that each model gives of itself, and the dimensions and start values that DGL-KE derives from its
flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple

from ..errors import InputError

INIT_EPSILON = 2.0  # DGL-KE's EMB_INIT_EPS


@dataclass(frozen=True)
class RowDims:
    """Floats of one row of each table; projection only for TransR."""

    entity: int
    relation: int
    projection: Optional[int] = None

    def __str__(self) -> str:
        return ", ".join(f"{table} {floats}" for table, floats in vars(self).items() if floats)


class Model:
    """All that the package has to know of a model in addition to its formulas in csrc/models. Subclasses say what
    differs.

    Every score is f(query, candidate row): the query joins the relation with the entity that stays, the row is the
    candidate in the other place. Instances have no state.

    Attributes:
        name: DGL-KE's name for the model, as --model_name takes it.
        aliases: other names for it.
        similarity: f: "dot", "l2", "l1" or "modulus" (csrc/models/similarity); "own" for a function in torch.
        bound: scores are clamped to plus and minus this; 0: they are not.
        halves: parts of an entity's and of a relation's row that belong together column by column, such as real and
            imaginary ones; None where the score mixes columns, so that ranks cannot have some of them each.
        complex_rows: whether all rows are complex numbers.
        phases: whether relation rows are angles, in units of embedding_range / pi.
        matrices: the table whose rows are matrices, "relation" or "projection".
        doubled: whether it needs --double_ent, and --double_rel.
        two_formulas: whether DGL-KE scores corrupted tails by another formula than true triples (score_rule.py).
        in_dglke: whether DGL-KE's own loop trains it.
        predicts_relations: whether --relation_prediction goes with it: the score stays when head and relation change
            places, or the relation is a matrix.
        reference: MODULE.CLASS in models/device, its query in torch operations; None: no softmax over all entities.
    """

    name: str
    aliases: Tuple[str, ...] = ()
    similarity: str
    bound: float = 0.0
    halves: Optional[Tuple[int, int]] = None
    complex_rows: bool = False
    phases: bool = False
    matrices: Optional[str] = None
    doubled: Tuple[bool, bool] = (False, False)
    two_formulas: bool = False
    in_dglke: bool = False
    predicts_relations: bool = False
    reference: Optional[str] = None

    @property
    def projects(self) -> bool:
        """Whether candidates are entity rows times a matrix of the relation's."""
        return self.matrices == "projection"

    def queries(self, corrupt_head: bool, fixed: Any, relation: Any, embedding_range: float) -> Any:
        """The query for candidates of the head, or the tail: (n, dim of a candidate row) float32, for ranking.

        fixed (n, entity dim), relation (n, relation dim): numpy float32. With matrices: see `queries_of`.
        """
        raise NotImplementedError

    def queries_of(self, corrupt_head: bool, fixed: Any, relation: Any, as_negative: bool) -> Any:
        """The same where one relation at a time is asked for, by its row (relation dim,).

        fixed: already projected, if the model does. as_negative: as DGL-KE scores corrupted triples.
        """
        raise NotImplementedError

    def dims(self, hidden_dim: int, double_entity: bool = False, double_relation: bool = False) -> RowDims:
        """Row lengths for --hidden_dim, --double_ent and --double_rel. Raises InputError if they cannot work."""
        if hidden_dim < 1:
            raise InputError(f"--hidden_dim must be at least 1, not {hidden_dim}")
        entity = hidden_dim * (2 if double_entity else 1)
        relation = hidden_dim * (2 if double_relation else 1)
        self.check(entity, relation)
        return self.rows(entity, relation)

    def check_flags(self, hidden_dim: int, double_entity: bool, double_relation: bool) -> None:
        """Raise InputError for flags that the model does not go with."""
        flags = ("-de (--double_ent)", double_entity), ("-dr (--double_rel)", double_relation)
        missing = [flag for needed, (flag, given) in zip(self.doubled, flags) if needed and not given]
        if missing:
            raise InputError(f"{self.name} needs rows of twice the hidden size; give {' and '.join(missing)}")
        self.dims(hidden_dim, double_entity, double_relation)

    def check(self, entity: int, relation: int) -> None:
        """Raise InputError unless the model can work with these dimensions. Here: they must be equal."""
        if entity != relation:
            raise InputError(
                f"{self.name} needs entity and relation rows of the same length, not {entity} and {relation}; "
                "give both -de (--double_ent) and -dr (--double_rel) or neither")

    def rows(self, entity: int, relation: int) -> RowDims:
        """Row lengths, once the dimensions have been checked."""
        return RowDims(entity, relation)

    def check_rows(self, found: RowDims) -> None:
        """Raise InputError unless tables with rows of these lengths are this model's."""
        relation = found.entity if self.matrices == "relation" else found.relation
        self.check(found.entity, relation)
        expected = self.rows(found.entity, relation)
        if expected != found:
            raise InputError(f"rows of {self.name} have lengths {expected}, but those of the tables have {found}; give "
                             "the folder of one run")

    def embedding_range(self, gamma: float, hidden_dim: int) -> float:
        """Entity and relation rows start uniform in plus and minus this: (gamma + 2) / hidden_dim."""
        return (gamma + INIT_EPSILON) / hidden_dim

    def projection_range(self) -> float:
        """Projection rows, if there are any, start uniform in plus and minus this."""
        return 1.0


def require_even(name: str, entity: int) -> None:
    """Raise InputError if rows that are two halves have an odd length."""
    if entity % 2:
        raise InputError(f"{name} splits entity rows into two halves; their length is odd, {entity}, and must be even")
