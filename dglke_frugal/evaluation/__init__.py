"""Ranking of triples against candidates, and metrics of the ranks. Needs no PyTorch unless tables are tensors."""

from .candidates import Sampling
from .known_triples import KnownTriples
from .metrics import RANK_TIES, Metrics
from .model import HEAD, SIDES, TAIL, EmbeddingModel
from .protocol import Evaluation, Protocol, evaluate, share_of

__all__ = ["HEAD", "RANK_TIES", "SIDES", "TAIL", "EmbeddingModel", "Evaluation", "KnownTriples", "Metrics", "Protocol",
           "Sampling", "evaluate", "share_of"]
