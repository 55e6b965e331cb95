"""TransE (Bordes et al. 2013): score = gamma - |h + r - t|, Euclidean or as a sum of absolute values."""
from .model import Model


class TransEL1(Model):
    """Distances are sums of absolute values."""
    name = "TransE_l1"
    similarity = "l1"


class TransEL2(Model):
    """Distances are Euclidean."""
    name = "TransE_l2"
    aliases = ("TransE",)
    similarity = "l2"
