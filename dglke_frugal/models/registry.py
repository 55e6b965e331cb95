"""The models by name."""
from __future__ import annotations

from ..errors import InputError
from .complex import ComplEx
from .distmult import DistMult
from .model import Model
from .rescal import RESCAL
from .rotate import RotatE
from .simple import SimplE
from .transe import TransEL1, TransEL2
from .transr import TransR

MODELS: tuple[Model, ...] = tuple(
    model() for model in (TransEL1, TransEL2, DistMult, ComplEx, RotatE, SimplE, RESCAL, TransR)
)


def model_names() -> list[str]:
    """All names that find_model takes."""
    return [name for model in MODELS for name in (model.name, *model.aliases)]


def find_model(name: str) -> Model:
    """The model of that name. Raises InputError, listing the names, if there is none."""
    for model in MODELS:
        if name in (model.name, *model.aliases):
            return model
    raise InputError(f"there is no model '{name}'; --model_name takes one of {', '.join(model_names())}")
