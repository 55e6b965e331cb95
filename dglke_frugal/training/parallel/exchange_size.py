"""How much ranks sharded by columns exchange in a step."""

from __future__ import annotations

from ... import _native
from ..batches.sampler import Sampler
from ..step.native_step import native_step
from ..step.step_config import StepConfig


class ExchangeSize:
    """Floats that ranks exchange in a step of a sampler's batches, at most: of raw scores, of the weights that become
    of them, and of mean squares."""

    def __init__(self, config: StepConfig, sampler: Sampler, entities: int, relations: int):
        step = native_step(config, threads=1)
        positives, negatives = sampler.batch_size, sampler.batch_size // sampler.chunk_size * \
            sampler.config.neg_sample_size
        self.scores, self.weights = _native.exchanged_floats(step, positives, sampler.chunk_size,
                                                             sampler.config.neg_sample_size)
        self.squares = min(entities, 2 * positives + negatives) + negatives + positives + 4
