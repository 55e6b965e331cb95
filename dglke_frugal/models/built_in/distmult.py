"""DistMult (Yang et al. 2015): score = sum h r t."""
from ..model import Model


class DistMult(Model):
    """The product of three rows, element by element, summed."""
    name = "DistMult"
    similarity = "dot"
    halves = (1, 1)
    predicts_relations = True
    in_dglke = True
    reference = "bilinear.DistMult"

    def queries(self, corrupt_head, fixed, relation, embedding_range):
        return fixed * relation
