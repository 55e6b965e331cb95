"""A training run by a softmax over all entities: other batches and another step, and all else as in every run."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Optional, Tuple

from ..batches.sampler import SamplerConfig
from ..full_softmax.config import full_softmax_config
from ..full_softmax.queries import Queries, QuerySampler
from ..step.step_config import step_config
from .run import TrainingRun


class FullSoftmaxRun(TrainingRun):
    """Trains on batches without negatives; both tables lie as a whole on the device, or in host memory without one.

    Attributes:
        machines: how many share out the entities.
    """

    machines = 1

    @cached_property
    def _queries(self) -> Optional[Tuple[Queries, Queries]]:
        """Of tails and of heads, where they are what is trained on, rather than triples."""
        if self.config.loss.labels != "kvsall":
            return None
        reciprocal = self.config.model.reciprocal
        return Queries.of(self.graph, False, reciprocal), Queries.of(self.graph, True, reciprocal)

    def _make_sampler(self):
        if self._queries is None:
            return super()._make_sampler()
        config = self.config
        return QuerySampler(self.graph, self._queries, SamplerConfig(
            config.batch.batch_size, 0, config.run.seed,
            inverse=self.graph.n_relations if config.model.reciprocal else 0))

    @property
    def epoch_positives(self):
        return super().epoch_positives if self._queries is None else sum(len(each.key) for each in self._queries) / 2

    def _entity_share(self):
        """The full_softmax.entity_share.EntityShare of this process, None for all entities."""
        return None

    def _state(self):
        return {**super()._state(), "machines": self.machines}

    def _log_other_rounding(self, state):
        before = state.get("machines", 1)
        if before != self.machines:
            print(f"the number of machines was {before} and is {self.machines}: from here on sums round in another "
                  "order")

    def _make_step(self):
        from ..full_softmax.full_softmax import FullSoftmax
        from ..full_softmax.targets import AllAnswers, OneAnswer
        from ..step.device_step import DeviceStep  # here, because it takes torch's import time

        step = replace(step_config(self.config), learning_rate=self.learning_rate.now)
        full = full_softmax_config(self.config, step)
        device = self.device
        if self._queries is None:
            targets = OneAnswer(device, self.sampler.batch_size)
        else:
            queries, reciprocal = self._queries, self.config.model.reciprocal
            if reciprocal:  # steps of both directions ask for tails
                queries = (queries[0].and_others(queries[1]),)
            targets = AllAnswers(device, queries, self.graph.n_entities,
                                 self.config.model.relation_rows(self.graph.n_relations), full.label_smoothing,
                                 full.binary)
        return DeviceStep(step, device, make_gradients=lambda step, device, sums: FullSoftmax(
            replace(full, step=step), device, sums, targets, self.config.device.matmul, self._entity_share()))
