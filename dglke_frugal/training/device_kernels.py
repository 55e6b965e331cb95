"""The gradients of a step by this package's own kernels (csrc/step): on a device the CPU's bits, in five launches."""
from __future__ import annotations

from .. import _native
from ..store.device import Device
from .device_batch import StepShape
from .step import StepConfig, make_step


class KernelGradients:
    """Computes the gradients of built-in models; to be used as TorchGradients is."""

    def __init__(self, config: StepConfig, device: Device, sums):
        """sums: (4,) float64 in device memory, to which losses are added."""
        on_cpu = device.torch_device.type == "cpu"
        self._config, self._device, self._sums = config, device, sums
        self._step = make_step(config, threads=None if on_cpu else 1)  # elsewhere only asked what it computes

    def of_shape(self, shape: StepShape):
        """See TorchGradients.of_shape."""
        config, zeros, fields = self._config, self._device.zeros, shape.transfer.fields
        entities, relations = shape.records[:2]
        positive = zeros(len(entities), config.entity_dim)
        negative = zeros(len(fields["negative_slot"]), config.entity_dim)
        relation = zeros(len(fields["relation_slot"]), config.relation_dim)
        workspace = None
        if self._device.torch_device.type != "cpu":
            workspace = zeros(_native.workspace_floats(self._step, shape.transfer.layout))
        entries = [
            [(positive, fields["sum_offset"], fields["sum_order"]),
             (negative, fields["negative_offset"], fields["negative_occurrence"])],
            [(relation, fields["relation_offset"], fields["relation_occurrence"])],
        ]

        def compute(corrupt_head: bool):
            _native.compute_gradients(self._step, shape.transfer.layout, corrupt_head, shape.transfer.block, entities,
                                      relations, positive, negative, relation, self._sums, workspace,
                                      self._device.stream)
            return entries

        return compute
