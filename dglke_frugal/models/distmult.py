"""DistMult (Yang et al. 2015): score = sum h r t."""
from .model import Model


class DistMult(Model):
    name = "DistMult"
    similarity = "dot"
