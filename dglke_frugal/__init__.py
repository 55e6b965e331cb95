"""A backend for DGL-KE: embedding tables in host memory, hot rows cached per device, updates flushed by next use."""


def __getattr__(name):
    if name == "load":  # on first use, so that the import stays light
        from .inference.run import Run

        return Run.load
    if name in ("Embedding", "EmbeddingBag"):  # they import torch
        from . import embedding

        return getattr(embedding, name)
    if name == "optim":
        from importlib import import_module

        return import_module(".optim", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
