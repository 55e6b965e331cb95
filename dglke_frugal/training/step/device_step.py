"""One training step on a device: rows in, updated rows out, no synchronisation with the host and no autograd.

The same code runs on the CPU (arrays in host memory) and on CUDA. Shapes are fixed and addresses stay, so that on CUDA
a step is one graph per direction of corruption; losses are summed on the device and read when somebody asks.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from typing import Callable, Dict, List, Optional, Tuple

import numpy as np

from ... import _native
from ...models import is_custom
from ...models.custom_random import random_numbers_of
from ...store.device.device import Device, Event, Repeated, no_op
from ...store.device.plan_kernels import update_tables
from ...store.rows.device_rows import STEPS_ON_DEVICE, DeviceRows
from .device_batch import BATCHES_KEPT, BatchForm, BatchSizes, BlockTransfer, DeviceBlock, PackedBatches
from .device_kernels import KernelGradients
from .losses import Losses
from .step import Step
from .step_config import KERNEL_MODELS, StepConfig
from .summed_updates import OptimizerRule, update_from_entries


class DeviceStep(Step):
    """Trains on batches, one after the other, with rows that DeviceRows bring."""

    def __init__(self, config: StepConfig, device: Device, matmul: str = "fp32", exchange=None,
                 make_gradients: Optional[Callable] = None, stream: Tuple[int, ...] = (0, 0)):
        """matmul: one of options.MATMULS. exchange: the StepExchange of a rank that has
        some columns of all rows, of which `config` then is. make_gradients(config, device, sums): what computes
        instead of what suits `config`, with the methods of KernelGradients. stream: of the random numbers of a
        custom model, see models/custom_random.py."""
        self._device, self._matmul = device, matmul
        self._stream = stream if is_custom(config.model) else None
        self._sums = device.zeros(5, dtype=np.float64)  # as Losses has them
        self._exchange, self._make_gradients = exchange, make_gradients
        self._steps = 0
        self._ahead: Dict[Tuple, PackedBatches] = {}  # by sizes and tables: the last, full ones
        self._written_back = deque(maxlen=STEPS_ON_DEVICE)  # events behind the last steps, of whatever shape
        self._compute(config)

    def _compute(self, config: StepConfig) -> None:
        """From now on, steps of this configuration."""
        device, exchange, matmul = self._device, self._exchange, self._matmul
        sums = self._sums[:4]  # the last one is of relation prediction, which sampled negatives do not have
        self._config, self._learning_rate = config, config.learning_rate
        self._rule: Optional[OptimizerRule] = None  # of a row's sum of gradients; None for one gradient after the other
        if config.optimizer != "row_adagrad" and self._make_gradients is None:
            self._rule = OptimizerRule(config.optimizer, config.learning_rate, device)
        if self._make_gradients is not None:
            self._gradients = self._make_gradients(config, device, self._sums)
        elif exchange is not None:
            from .device_columns import ColumnGradients  # here, because others do not need it

            self._gradients = ColumnGradients(config, device, sums, exchange, matmul)
        elif config.model in KERNEL_MODELS:
            self._gradients = KernelGradients(config, device, sums, matmul)
        else:
            from .device_torch import TorchGradients  # here, because others do not need it

            self._gradients = TorchGradients(config, device, sums, matmul)
        self._shaped: Dict[Tuple, _ShapedStep] = {}

    def set_learning_rate(self, rate):
        """The steps' work is recorded anew: the rate is part of it. Waits for the device."""
        self._device.synchronize()
        self._compute(replace(self._config, learning_rate=rate))

    def pack_ahead(self, sampler, announced: int, *tables: DeviceRows) -> _native.BatchPacker:
        """Who packs the full batches of a sampler when they are made, so that their steps need not.

        announced: steps that are announced at a time. tables: as for run_rows."""
        config = sampler.config
        sizes = BatchSizes(sampler.batch_size, sampler.chunk_size, config.neg_sample_size, sampler.weighted)
        count = config.lookahead + config.used_threads + announced + BATCHES_KEPT  # more are packed by their steps
        packed = PackedBatches(self._device, sizes.layout(tables), count)
        self._device.synchronize()  # earlier steps need nothing of theirs any more
        self._ahead, self._shaped = {(sizes, tables): packed}, {}
        return packed.packer

    def run_rows(self, batch, *tables: DeviceRows):
        """Enqueue the step."""
        shape = len(batch), batch.chunk_size, batch.negatives_per_chunk, batch.weighted, tables
        shaped = self._shaped.get(shape)
        if shaped is None:  # full batches, and perhaps the rest of an epoch
            shaped = self._shaped[shape] = _ShapedStep(self, BatchSizes(*shape[:-1]), tables)
        after = self._written_back[0] if len(self._written_back) == STEPS_ON_DEVICE else None
        with nullcontext() if self._stream is None else random_numbers_of(batch.step, self._stream,
                                                                          self._device.torch_device):
            self._written_back.append(shaped.run(batch, after))
        self._steps += 1
        if self._exchange is not None:
            self._exchange.check()

    def take_losses(self):
        taken = []

        def work():
            taken.append(self._sums.to("cpu", copy=True))
            self._sums.zero_()

        self._device.submit(work)
        self._device.synchronize()
        count, self._steps = max(1, self._steps), 0
        return Losses(*(value / count for value in taken[0].tolist()))


class _ShapedStep:
    """Steps of batches of one shape: their buffers, and their repeatable work."""

    def __init__(self, step: DeviceStep, sizes: BatchSizes, tables: Tuple[DeviceRows, ...]):
        self._device, self._tables, self._learning_rate = step._device, tables, step._learning_rate
        self._rule = step._rule
        form = BatchForm(sizes.positives, sizes.positives // sizes.chunk_size, sizes.negatives, False, sizes.weighted)
        in_place = step._gradients.in_place(tables)
        self._transfer = BlockTransfer(self._device, sizes.layout(tables), tables, in_place,
                                       step._ahead.get((sizes, tables)))
        blocks = self._transfer.blocks
        self._write_backs = [self._make_write_back(block) for block in blocks]
        self._publishing_before_sync = [rows for rows in tables if rows.publishes_before_sync]
        # A write-back waits for all work of its step: also for the rows that the step publishes before the
        # synchronisation.
        self._computed = [None if write_back is None or self._publishing_before_sync else self._device.make_event()
                          for write_back in self._write_backs]
        self._works = [self._make_works(block, step._gradients.of_block(form, block, tables), computed)
                       for block, computed in zip(blocks, self._computed)]

    def _make_works(self, at: DeviceBlock, gradients: Callable[[bool], List[list]],
                    computed: Optional[Event]) -> List[Repeated]:
        """The work that is submitted for a step in a block, by its direction of corruption."""
        entity, relation = at.fields["counts"].split(1)
        counts = entity, relation, relation

        def compute(corrupt_head: bool):
            entries = gradients(corrupt_head)
            if self._rule is not None:
                self._rule.start(at.fields["step"])
                for rows, plan, entry, count in zip(self._tables, at.plans, entries, counts):
                    update_from_entries(rows, plan.rows, count, entry, self._rule)
                return
            of_tables = list(zip(self._tables, at.plans, at.records, entries, counts))
            replicas = [each for each in of_tables if each[0].replicated]
            others = [each for each in of_tables if not each[0].replicated and each[2] is not None]

            def send_sums():
                for rows, plan, *rest in replicas:
                    rows.update(plan, *rest)

            def receive(tables):
                for rows, plan, records, _, count in tables:
                    rows.receive(plan, records, count, self._learning_rate)

            side_stream = self._device.side_stream() if replicas else None
            if side_stream:  # sums of replicas are exchanged with other ranks while other tables are updated
                side_stream.run(send_sums)
            updates = [rows.update(plan, *rest) for rows, plan, *rest in others]
            if updates:
                update_tables(updates, self._learning_rate, self._device.stream)
            for rows, plan in zip(self._tables, at.plans):
                rows.publish(plan)
            receive(others)  # the rows that others wait for have been published
            if side_stream:
                side_stream.run(lambda: receive(replicas))
                side_stream.join()

        return [self._device.repeated(lambda side=side: compute(side), at.prefetched, computed)
                for side in (False, True)]

    def _make_write_back(self, at: DeviceBlock) -> Optional[Callable[[], None]]:
        """None where nothing leaves later than with the update."""
        write_backs = [rows.write_back(plan) for rows, plan in zip(self._tables, at.plans)]
        write_backs = [write_back for write_back in write_backs if write_back is not no_op]

        def work():
            for write_back in write_backs:
                write_back()

        return work if write_backs else None

    def run(self, batch: _native.Batch, after: Optional[Event]) -> Event:
        """Enqueue the step, whose prefetch waits for `after`. Returns the event after its write-back."""
        block = self._transfer.send(batch, after)
        for rows in self._tables:  # with everything ready that does not need them
            rows.wait()
        self._device.repeat(self._works[block][batch.corrupt_head])
        if self._publishing_before_sync:
            for rows, plan in zip(self._tables, self._transfer.blocks[block].plans):
                rows.publish_before_sync(plan)
        write_back = self._write_backs[block]
        written_back = (self._device.record() if write_back is None
                        else self._device.write_back(write_back, self._computed[block]))
        for rows in self._tables:
            rows.leave(written_back)
        self._transfer.keep(batch, written_back)
        return written_back
