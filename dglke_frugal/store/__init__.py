"""Where embedding rows live: the host table, and everything that moves rows between it and a device."""
from .embedding_store import EmbeddingStore

__all__ = ["EmbeddingStore"]
