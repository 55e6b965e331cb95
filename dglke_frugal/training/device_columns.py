"""The gradients of a step of a rank that has some columns: its scores and mean squares meet those of the others."""
from __future__ import annotations

from typing import Callable, Dict, List

import numpy as np

from .. import _native
from ..store.device import Device
from .column_exchange import StepExchange
from .device_batch import BatchForm, DeviceBlock
from .device_kernels import KernelGradients
from .step import StepConfig


class ColumnGradients(KernelGradients):
    """As KernelGradients; config: of the rank's own columns. Two exchanges a step, in this order: raw scores, mean
    squares."""

    def __init__(self, config: StepConfig, device: Device, sums, exchange: StepExchange):
        super().__init__(config, device, sums)
        self._exchange, self._columns = exchange, exchange.native
        self._means: Dict[BatchForm, object] = {}

    def of_block(self, form: BatchForm, at: DeviceBlock) -> Callable[[bool], List[list]]:
        compute = super().of_block(form, at)
        gradients, means = self._buffers[form][0], self._means[form]
        counts = [len(each) for each in gradients]
        last = np.cumsum(counts)
        positive, negative, relation = (means[end - count : end] for end, count in zip(last, counts))

        def with_means(corrupt_head: bool):
            entities, relations = compute(corrupt_head)
            _native.mean_squares(list(gradients), means, self._exchange.native, self._device.stream)
            return [[(*entities[0], positive), (*entities[1], negative)], [(*relations[0], relation)]]

        return with_means

    def _make_buffers(self, form, at):
        buffers = super()._make_buffers(form, at)
        self._means[form] = self._device.zeros(-(-sum(map(len, buffers[0])) // 4) * 4)
        return buffers
