"""RESCAL (Nickel et al. 2011): score = h^T M t with a square matrix M per relation."""
from .model import Model, RowDims


class RESCAL(Model):
    """A relation is a matrix between head and tail."""
    name = "RESCAL"
    similarity = "dot"

    def rows(self, entity: int, relation: int) -> RowDims:
        return RowDims(entity, relation * entity)
