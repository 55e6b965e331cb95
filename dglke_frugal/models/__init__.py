"""The models: what each is called, how long its rows are, how they start."""
from .model import Model, RowDims
from .registry import MODELS, built_in_model, code_checksum, find_model, is_custom, model_names
from .torch_model import TorchModel

__all__ = ["MODELS", "Model", "RowDims", "TorchModel", "built_in_model", "code_checksum", "find_model", "is_custom",
           "model_names"]
