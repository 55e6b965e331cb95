"""TransE (Bordes et al. 2013): score = gamma - |h + r - t|, Euclidean or as a sum of absolute values."""
from ..model import Model


class _TransE(Model):
    halves = (1, 1)
    in_dglke = True

    def queries(self, corrupt_head, fixed, relation, embedding_range):
        return fixed - relation if corrupt_head else fixed + relation


class TransEL1(_TransE):
    """Distances are sums of absolute values."""
    name = "TransE_l1"
    similarity = "l1"
    reference = "transe.TransE"


class TransEL2(_TransE):
    """Distances are Euclidean."""
    name = "TransE_l2"
    aliases = ("TransE",)
    similarity = "l2"
    reference = "transe.TransE"
