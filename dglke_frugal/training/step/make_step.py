"""The step that computes a configuration, on a processor or a device."""

from __future__ import annotations

from typing import Optional, Tuple

from ...models import TorchModel, find_model
from .native_step import NativeStep
from .step import Step
from .step_config import StepConfig


def make_step(config: StepConfig, threads: Optional[int] = None, device=None, *, matmul: str, exchange=None,
              custom_model: Optional[TorchModel] = None, stream: Tuple[int, ...] = (0, 0)) -> Step:
    """The step that computes `config`, on so many threads of the CPU (default: as many as CPU kernels use).

    For a custom model (models.TorchModel) an AutogradStep, and with a `device` (a store.device.Device) a
    DeviceStep, whose products have the precision `matmul`, and with an `exchange` (a StepExchange) the one of a rank
    that has some columns. `custom_model`: the instance, if it is shared with who ranks it. `stream`: of the random
    numbers of such a model, see models/custom_random.py.
    Raises ValueError if the dimensions do not fit the model, or for less than one thread.
    """
    if device is not None:
        from .device_step import DeviceStep  # here, because it takes torch's import time

        return DeviceStep(config, device, matmul, exchange, stream=stream)
    model = custom_model or find_model(config.model)
    if isinstance(model, TorchModel):
        from .autograd_step import AutogradStep  # here, because it takes torch's import time

        return AutogradStep(config, model, stream)
    return NativeStep(config, threads)
