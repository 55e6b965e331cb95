"""The configuration of a training step: the model, the loss, the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from ... import _native
from ...models import find_model
from ...options import TrainConfig

# Models whose gradients csrc/step/cuda computes on a device; those of the others are torch's (device_torch.py).
KERNEL_MODELS = tuple(_native.ROW_MODELS)


def gradient_stride(dim: int) -> int:
    """Floats from one row of gradients to the next on a device: whole words of 16 bytes, which its kernels read."""
    return -(-dim // 4) * 4


@dataclass(frozen=True)
class LossConfig:
    """The loss of a run, with DGL-KE's names and defaults. See csrc/models/loss.h for the formulas.

    options.check refuses a user's combinations that make no sense.
    """

    genre: str = "Logsigmoid"
    margin: float = 1.0
    pairwise: bool = False
    adversarial: bool = False
    temperature: float = 1.0
    regularization_coefficient: float = 2e-6
    regularization_norm: float = 3

    @property
    def joint(self) -> bool:
        """Whether a positive and its negatives have one loss between them, rather than one each."""
        return self.pairwise or self.genre == "Softmax"

    @property
    def regularized(self) -> bool:
        """Whether the loss has a penalty."""
        return self.regularization_coefficient > 0 and self.regularization_norm > 0


@dataclass(frozen=True)
class StepConfig:
    """The configuration of a step: the model, the length of its rows in floats, the loss, the optimizer."""

    model: str
    entity_dim: int
    relation_dim: int
    gamma: float
    embedding_range: float
    learning_rate: float
    loss: LossConfig = LossConfig()
    degree_negatives: bool = False
    score_rule: str = "textbook"  # see score_rule.py
    optimizer: str = "row_adagrad"  # one of options.OPTIMIZERS


def step_config(config: TrainConfig) -> StepConfig:
    """The step that the flags describe."""
    model = find_model(config.model.model_name)
    dims = config.model.dims
    loss = config.loss
    return StepConfig(
        model.name, dims.entity, dims.relation, config.model.gamma,
        model.embedding_range(config.model.gamma, config.model.hidden_dim), loss.lr,
        LossConfig(loss.loss_genre, loss.margin, loss.pairwise, loss.neg_adversarial_sampling,
                   loss.adversarial_temperature, loss.regularization_coef, loss.regularization_norm),
        config.batch.neg_deg_sample, config.model.score_rule, loss.optimizer)
