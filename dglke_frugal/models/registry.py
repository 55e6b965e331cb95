"""The models by name."""

from __future__ import annotations

import importlib
import os
import sys

from ..errors import InputError
from .complex import ComplEx
from .distmult import DistMult
from .model import Model
from .rescal import RESCAL
from .rotate import RotatE
from .simple import SimplE
from .torch_model import TorchModel
from .transe import TransEL1, TransEL2
from .transr import TransR

MODELS: tuple[Model, ...] = tuple(
    model() for model in (TransEL1, TransEL2, DistMult, ComplEx, RotatE, SimplE, RESCAL, TransR)
)


def model_names() -> list[str]:
    """The names of the built-in models, aliases included."""
    return [name for model in MODELS for name in (model.name, *model.aliases)]


def find_model(name: str) -> Model:
    """The model of that name, or the user's own TorchModel if the name is MODULE:CLASS.

    MODULE is imported as Python does, also from the current folder. Raises InputError if there is no such model.
    """
    for model in MODELS:
        if name in (model.name, *model.aliases):
            return model
    if ":" in name:
        return _import_model(name)
    raise InputError(
        f"there is no model '{name}'; --model_name takes one of "
        f"{', '.join(model_names())}, or MODULE:CLASS for your own"
    )


def _import_model(name: str) -> TorchModel:
    module_name, _, class_name = name.partition(":")
    sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"cannot load the model '{name}': {error}; give MODULE:CLASS of a class that can be imported"
        ) from error
    finally:
        sys.path.pop()
    if not (isinstance(found, type) and issubclass(found, TorchModel)):
        raise InputError(f"'{name}' is no subclass of dglke_frugal.models.TorchModel; derive your model from it")
    model = found()
    model.name = name
    return model
