"""TransR (Lin et al. 2015): entities are projected by a matrix per relation, then compared as TransE_l1 does."""
from ..model import Model, RowDims


class TransR(Model):
    """Entities are projected into the space of the relation first. DGL-KE scores a corrupted tail b as
    gamma - |h M - r - b M|."""
    name = "TransR"
    similarity = "l1"
    matrices = "projection"
    two_formulas = True
    in_dglke = True
    reference = "transr.TransR"

    def check(self, entity: int, relation: int) -> None:
        """Any two dimensions work."""

    def rows(self, entity: int, relation: int) -> RowDims:
        return RowDims(entity, relation, entity * relation)

    def queries_of(self, corrupt_head, fixed, relation, as_negative):
        return fixed + (-relation if corrupt_head or as_negative else relation)
