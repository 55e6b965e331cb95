"""One training step on the CPU: a thin wrapper over csrc/step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .. import _native
from ..models import TorchModel, find_model

LOSS_GENRES = {
    "Logsigmoid": _native.LossGenre.SOFTPLUS,
    "Logistic": _native.LossGenre.SOFTPLUS,
    "BCE": _native.LossGenre.SOFTPLUS,  # with labels 1 and 0 it is the same function, and here it cannot overflow
    "Hinge": _native.LossGenre.HINGE,
}
SCORE_RULES = {"textbook": _native.ScoreRule.TEXTBOOK, "dglke": _native.ScoreRule.DGLKE}
# Models whose gradients csrc/step/cuda computes on a device; those of the others are torch's (device_torch.py).
KERNEL_MODELS = ("TransE", "TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "SimplE")


@dataclass(frozen=True)
class LossConfig:
    """The loss of a run, with DGL-KE's names and defaults. See csrc/loss/loss.h for the formulas.

    config.check refuses a user's combinations that make no sense.
    """

    genre: str = "Logsigmoid"
    margin: float = 1.0
    pairwise: bool = False
    adversarial: bool = False
    temperature: float = 1.0
    regularization_coefficient: float = 2e-6
    regularization_norm: float = 3


@dataclass(frozen=True)
class StepConfig:
    """What a step computes: the model, the length of its rows in floats, the loss, the optimizer."""

    model: str
    entity_dim: int
    relation_dim: int
    gamma: float
    embedding_range: float
    learning_rate: float
    loss: LossConfig = LossConfig()
    degree_negatives: bool = False
    score_rule: str = "textbook"  # see score_rule.py


def make_step(config: StepConfig, threads: Optional[int] = None, instruction_set: Optional[str] = None, device=None,
              matmul: str = "fp32", exchange=None, own_model: Optional[TorchModel] = None):
    """The step that computes `config`: csrc/step on `threads` threads (default: as many as CPU kernels use).

    For a user's own model (models.TorchModel) an AutogradStep, and with a `device` (a store.device.Device) a
    DeviceStep, whose products have the precision `matmul`, and with an `exchange` (a StepExchange) the one of a rank
    that has some columns; all have the same run_rows. `own_model`: the
    instance, if it is shared with who ranks it. `instruction_set` ("baseline",
    "avx512") is for tests: the default is the best the processor has, with the same bits. Raises ValueError if the
    dimensions do not fit the model, or for less than one thread.
    """
    if device is not None:
        from .device_step import DeviceStep  # here, because it takes torch's import time

        return DeviceStep(config, device, matmul, exchange)
    model = own_model or find_model(config.model)
    if isinstance(model, TorchModel):
        from .autograd_step import AutogradStep  # here, because it takes torch's import time

        return AutogradStep(config, model)
    loss = config.loss
    return _native.TrainStep(
        model=config.model,
        entity_dim=config.entity_dim,
        relation_dim=config.relation_dim,
        gamma=config.gamma,
        embedding_range=config.embedding_range,
        genre=LOSS_GENRES[loss.genre],
        margin=loss.margin,
        pairwise=loss.pairwise,
        adversarial=loss.adversarial,
        temperature=loss.temperature,
        regularization_coefficient=loss.regularization_coefficient,
        regularization_norm=loss.regularization_norm,
        learning_rate=config.learning_rate,
        degree_negatives=config.degree_negatives,
        score_rule=SCORE_RULES[config.score_rule],
        threads=_native.num_threads() if threads is None else threads,
        instruction_set=instruction_set,
    )
