"""Where embedding rows live: the host table, and everything that moves rows between it and a device."""
from .embedding_store import EmbeddingStore
from .rows.flush_config import FlushConfig

__all__ = ["EmbeddingStore", "FlushConfig"]
