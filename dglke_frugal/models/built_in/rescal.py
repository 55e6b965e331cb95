"""RESCAL (Nickel et al. 2011): score = h^T M t with a square matrix M per relation."""
from ..model import Model, RowDims


class RESCAL(Model):
    """A relation is a matrix between head and tail. DGL-KE scores a corrupted tail b as b^T M h."""
    name = "RESCAL"
    similarity = "dot"
    matrices = "relation"
    two_formulas = True
    predicts_relations = True
    in_dglke = True
    reference = "bilinear.Rescal"

    def rows(self, entity: int, relation: int) -> RowDims:
        return RowDims(entity, relation * entity)

    def queries_of(self, corrupt_head, fixed, relation, as_negative):
        from ...arrays import rounded_product  # here, because names of models are asked for without numpy

        matrix = relation.reshape(fixed.shape[1], -1)
        return rounded_product(fixed, matrix.T if corrupt_head or as_negative else matrix)
