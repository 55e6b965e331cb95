"""The built-in models of a device by name."""
from __future__ import annotations

from .bilinear import ComplEx, DistMult, Rescal, RescalOfDglke, SimplE
from .model import DeviceModel, ModelShape
from .products import Products
from .rotate import RotatE
from .transe import TransEL1, TransEL2
from .transr import TransR

MODELS = {"TransE_l1": TransEL1, "TransE_l2": TransEL2, "DistMult": DistMult, "ComplEx": ComplEx, "RotatE": RotatE,
          "SimplE": SimplE, "RESCAL": Rescal, "TransR": TransR}


def make_device_model(name: str, shape: ModelShape, products: Products) -> DeviceModel:
    """The built-in model of that name (not an alias)."""
    if name == "RESCAL" and shape.score_rule == "dglke":
        return RescalOfDglke(shape, products)
    return MODELS[name](shape, products)
