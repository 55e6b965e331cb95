"""TransR (Lin et al. 2015): entities are projected by a matrix per relation, then compared as TransE_l1 does."""
from .model import Model, RowDims


class TransR(Model):
    """Entities are projected into the space of the relation first."""
    name = "TransR"
    similarity = "l1"

    def check(self, entity: int, relation: int) -> None:
        """Any two dimensions work."""

    def rows(self, entity: int, relation: int) -> RowDims:
        return RowDims(entity, relation, entity * relation)
