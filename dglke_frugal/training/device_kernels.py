"""The gradients of a step by this package's own kernels (csrc/step): on a device the CPU's bits, in six launches."""
from __future__ import annotations

from typing import Callable, Dict, List, Sequence, Tuple

from .. import _native
from ..store.device import Device
from ..store.device_rows import DeviceRows
from .device_batch import BatchForm, DeviceBlock
from .step import StepConfig, make_step


class KernelGradients:
    """Computes the gradients of built-in models; to be used as TorchGradients is."""

    def __init__(self, config: StepConfig, device: Device, sums):
        """sums: (4,) float64 in device memory, to which losses are added."""
        self._on_cpu = device.torch_device.type == "cpu"
        self._config, self._device, self._sums = config, device, sums
        self._columns = None  # the exchange of a rank that has some columns (device_columns.py)
        self._step = make_step(config, threads=None if self._on_cpu else 1)  # elsewhere only asked what it computes
        self._buffers: Dict[BatchForm, Tuple] = {}  # steps run one by one, so those of one shape share theirs

    def in_place(self, tables: Sequence[DeviceRows]) -> None:
        """See TorchGradients.in_place: no table is."""

    def of_block(self, form: BatchForm, at: DeviceBlock) -> Callable[[bool], List[list]]:
        """See TorchGradients.of_block."""
        if form not in self._buffers:
            self._buffers[form] = self._make_buffers(form, at)
        (positive, negative, relation), workspace = self._buffers[form]
        fields = at.fields
        entries = [
            [(positive, fields["sum_offset"], fields["sum_order"]),
             (negative, fields["negative_offset"], fields["negative_occurrence"])],
            [(relation, fields["relation_offset"], fields["relation_occurrence"])],
        ]

        def compute(corrupt_head: bool):
            _native.compute_gradients(self._step, at.layout, corrupt_head, at.block, *at.records, positive, negative,
                                      relation, self._sums, workspace, self._device.stream, self._columns)
            return entries

        return compute

    def _make_buffers(self, form: BatchForm, at: DeviceBlock) -> Tuple:
        zeros, entity_dim = self._device.zeros, self._config.entity_dim
        gradients = (zeros(len(at.records[0]), entity_dim), zeros(form.chunks * form.negatives, entity_dim),
                     zeros(form.positives, self._config.relation_dim))
        return gradients, None if self._on_cpu else zeros(_native.workspace_floats(self._step, at.layout))
