"""The gradients of a step by this package's own kernels (csrc/step): on a device in six launches, with the CPU's bits
unless products are rounded."""
from __future__ import annotations

from typing import Callable, Dict, List, Sequence, Tuple

from ... import _native
from ...store.device.device import Device
from ...store.rows.device_rows import DeviceRows
from .device_batch import BatchForm, DeviceBlock
from .native_step import native_step
from .step_config import StepConfig, gradient_stride


class KernelGradients:
    """Computes the gradients of built-in models; to be used as TorchGradients is."""

    def __init__(self, config: StepConfig, device: Device, sums, matmul: str = "fp32"):
        """sums: (4,) float64 in device memory, to which losses are added. matmul: one of options.MATMULS; the CPU's
        products are always exact to float32."""
        self._on_cpu = device.torch_device.type == "cpu"
        self._config, self._device, self._sums, self._matmul = config, device, sums, matmul
        self._columns = None  # the exchange of a rank that has some columns (device_columns.py)
        self._step = native_step(config, threads=None if self._on_cpu else 1)  # elsewhere only asked what it computes
        self._buffers: Dict[BatchForm, Tuple] = {}  # steps run one by one, so those of one shape share theirs

    def in_place(self, tables: Sequence[DeviceRows]) -> None:
        """See TorchGradients.in_place: no table is."""

    def of_block(self, form: BatchForm, at: DeviceBlock, tables: Sequence[DeviceRows]) -> Callable[[bool], List[list]]:
        """See TorchGradients.of_block."""
        if form not in self._buffers:
            self._buffers[form] = self._make_buffers(form, at)
        gradients, squares, workspace = self._buffers[form]
        lists = [("sum_offset", "sum_order"), ("negative_offset", "negative_occurrence"),
                 ("relation_offset", "relation_occurrence")]
        of_positive, of_negative, of_relation = [
            (gradient, *(at.fields[name] for name in names), square)
            for gradient, square, names in zip(gradients, squares or [None] * 3, lists)]
        reads = [rows.reads(plan) for rows, plan in zip(tables, at.plans)]

        def compute(corrupt_head: bool):
            for rows, plan, records, known in zip(tables, at.plans, at.records, reads):
                if known is None:
                    rows.gather(plan, records)
            _native.compute_gradients(self._step, at.layout, corrupt_head, at.block, *at.records, *reads, *gradients,
                                      squares if self._columns is None else None, self._sums, workspace,
                                      self._device.stream, self._columns, self._matmul)
            return [[of_positive, of_negative], [of_relation]]

        return compute

    def _make_buffers(self, form: BatchForm, at: DeviceBlock) -> Tuple:
        """(gradients, their mean squares, workspace); the CPU's own step needs no more than the first."""
        zeros, entity_dim = self._device.zeros, self._config.entity_dim
        rows = len(at.records[0]), form.chunks * form.negatives, form.positives
        gradients = [zeros(n, gradient_stride(dim))[:, :dim]
                     for n, dim in zip(rows, (entity_dim, entity_dim, self._config.relation_dim))]
        if self._on_cpu:
            return gradients, None, None
        return gradients, tuple(zeros(n) for n in rows), zeros(_native.workspace_floats(self._step, at.layout))
