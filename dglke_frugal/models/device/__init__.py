"""The models as torch tensor operations with closed-form gradients: csrc/models for devices.

Importing this package imports torch.
"""
from .model import DeviceModel, make_device_model

__all__ = ["DeviceModel", "make_device_model"]
