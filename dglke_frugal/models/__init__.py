"""The models: what each is called, how long its rows are, how they start."""
from .model import Model, RowDims
from .registry import MODELS, find_model, model_names
from .torch_model import TorchModel

__all__ = ["MODELS", "Model", "RowDims", "TorchModel", "find_model", "model_names"]
