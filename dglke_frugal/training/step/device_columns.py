"""The gradients of a step of a rank that has some columns: its scores and mean squares are added to those of the
others."""
from __future__ import annotations

from typing import Callable, Dict, List, Sequence

import numpy as np

from ... import _native
from ...store.device.device import Device
from ...store.rows.device_rows import DeviceRows
from ..processes.step_exchange import StepExchange
from .device_batch import BatchForm, DeviceBlock
from .device_kernels import KernelGradients
from .step_config import StepConfig


class ColumnGradients(KernelGradients):
    """As KernelGradients; config: of the rank's own columns. A step has three collectives: over raw scores and over
    the weights of pairs, within compute_gradients, and over mean squares."""

    def __init__(self, config: StepConfig, device: Device, sums, exchange: StepExchange, matmul: str):
        super().__init__(config, device, sums, matmul)
        self._columns = exchange.native
        self._means: Dict[BatchForm, object] = {}  # of all gradients of a step, one behind the other
        self._parts = exchange.mean_squares() if exchange.peer else None  # of all ranks: their means the update takes

    def of_block(self, form: BatchForm, at: DeviceBlock, tables: Sequence[DeviceRows]) -> Callable[[bool], List[list]]:
        compute = super().of_block(form, at, tables)
        gradients, squares, _ = self._buffers[form]

        def with_means(corrupt_head: bool):
            entries = compute(corrupt_head)
            if self._on_cpu:  # elsewhere the gradients come with their mean squares
                for gradient, square in zip(gradients, squares):
                    _native.mean_squares(gradient, square)
            if self._parts is None:
                _native.exchange_mean_squares(self._columns, self._means[form], self._device.stream)
            else:
                self._columns.barrier(self._device.stream)
            return entries

        return with_means

    def _make_buffers(self, form, at):
        gradients, _, workspace = super()._make_buffers(form, at)
        ends = np.cumsum([len(each) for each in gradients]).tolist()
        if self._parts is not None:
            return gradients, [self._parts[:, end - len(each) : end] for each, end in zip(gradients, ends)], workspace
        means = self._means[form] = self._device.zeros(-(-ends[-1] // 4) * 4)
        squares = tuple(means[end - len(each) : end] for each, end in zip(gradients, ends))
        return gradients, squares, workspace
