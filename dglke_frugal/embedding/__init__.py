"""Embedding tables larger than a GPU for any PyTorch model: modules on top of the store. See docs/embedding.md."""
from .bag import EmbeddingBag
from .config import CacheConfig
from .dense_step import DenseStep
from .init import Constant, Normal, Uniform, Xavier
from .loader import Lookahead
from .module import Embedding

__all__ = ["CacheConfig", "Constant", "DenseStep", "Embedding", "EmbeddingBag", "Lookahead", "Normal", "Uniform",
           "Xavier"]
