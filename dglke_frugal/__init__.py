"""A backend for DGL-KE: embedding tables in host memory, hot rows cached per device, updates flushed by next use.

    run = dglke_frugal.train(frame, split=(.9, .05, .05), model_name="ComplEx", hidden_dim=64, max_epoch=50)
    run = dglke_frugal.train(dataset="FB15k", model_name="ComplEx", hidden_dim=400, gpu=0, test=True)
    run = dglke_frugal.load("ckpts/ComplEx_FB15k_0")
    run.metrics.to_pandas(), run.tails("/m/027rn", "/location/country/form_of_government", k=3).to_pandas()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import optim
    from .embedding import Embedding, EmbeddingBag
    from .inference.run import Run
    from .python_training import train

    load = Run.load
    __version__: str

__all__ = ["Embedding", "EmbeddingBag", "__version__", "load", "optim", "train"]


def __getattr__(name):  # on first use, so that the import stays light
    if name == "load":
        from .inference.run import Run

        return Run.load
    if name in ("Embedding", "EmbeddingBag"):  # they import torch
        from . import embedding

        return getattr(embedding, name)
    if name == "optim":
        from importlib import import_module

        return import_module(".optim", __name__)
    if name == "train":
        from .python_training import train

        return train
    if name == "__version__":
        from .version import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
