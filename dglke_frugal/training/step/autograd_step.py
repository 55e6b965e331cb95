"""The training step for a user's own model: torch scores, autograd gradients, the same batches, losses and updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import softplus

from ... import _native
from ...models import TorchModel
from ...models.own_state import has_state, views
from .losses import Losses
from .step import HostStep
from .step_config import NO_SCORE, LossConfig, StepConfig


class AutogradStep(HostStep):
    """Computes one step of a TorchModel on rows of the store. The formulas are those of csrc/loss/loss.h."""

    def __init__(self, config: StepConfig, model: TorchModel):
        super().__init__()
        self._config, self._model = config, model
        model.gamma, model.range = config.gamma, config.embedding_range
        self._optimizer = None
        if has_state(model) and any(parameter.requires_grad for parameter in model.parameters()):
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            self._optimizer = torch.optim.Adagrad(trained, lr=config.learning_rate)

    def set_learning_rate(self, rate):
        self._config = replace(self._config, learning_rate=rate)
        for group in self._optimizer.param_groups if self._optimizer is not None else ():
            group["lr"] = rate

    def state_arrays(self):
        """The model's state, its optimizer's sums."""
        arrays = views(self._model) if has_state(self._model) else {}
        if self._optimizer is not None:
            sums = (self._optimizer.state[each]["sum"] for each in self._optimizer.param_groups[0]["params"])
            arrays.update({f"own-sum-{number}": each.view(-1).numpy() for number, each in enumerate(sums)})
        return arrays

    def _train(self, batch, entities, relations):
        config = self._config
        if self._optimizer is not None:
            self._model.train()
            self._optimizer.zero_grad()
        positive_slots = np.flatnonzero(np.diff(batch.positive_offset))
        positive_ids = batch.entities[positive_slots]
        nodes = _leaf(entities, positive_ids, config.entity_dim)
        negatives = _leaf(entities, batch.negative, config.entity_dim)
        edges = _leaf(relations, batch.relation, config.relation_dim)

        head, tail = (nodes[torch.from_numpy(np.searchsorted(positive_ids, ids))] for ids in (batch.head, batch.tail))
        weight = torch.from_numpy(np.array(batch.weight)) if len(batch.weight) else torch.ones(len(batch))
        positive, negative = step_losses(
            config.loss,
            self._model.score(head, edges, tail),
            self._negative_scores(batch, head, edges, tail, negatives),
            weight,
        )
        penalty = _penalty(config.loss, (nodes, negatives, edges))
        total = (negative if positive is None else 0.5 * (positive + negative)) + penalty
        total.backward()
        if self._optimizer is not None:
            self._optimizer.step()

        for rows, entries in (
            (entities, ((positive_ids, nodes), (batch.negative, negatives))),
            (relations, ((batch.relation, edges),)),
        ):
            rows.copy_to_destination()
            gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for _, leaf in entries]
            rows.apply_entries([(ids, gradient.contiguous().numpy()) for (ids, _), gradient in zip(entries, gradients)],
                               config.learning_rate)
        if positive is None:
            return Losses(0.0, 0.0, penalty.item(), total.item())
        return Losses(positive.item(), negative.item(), penalty.item(), total.item())

    def _negative_scores(self, batch, head, edges, tail, negatives) -> torch.Tensor:
        """(B, negatives of a chunk); degree negatives come first, scored 0 (or not, by a softmax) where they meet
        themselves."""
        chunks, size = batch.chunks, batch.chunk_size
        head, edges, tail, candidates = (x.unflatten(0, (chunks, -1)) for x in (head, edges, tail, negatives))
        if self._config.degree_negatives:
            candidates = torch.cat([head if batch.corrupt_head else tail, candidates], 1)
        candidates = candidates[:, None]
        if batch.corrupt_head:
            scores = self._model.score(candidates, edges[:, :, None], tail[:, :, None])
        else:
            scores = self._model.score(head[:, :, None], edges[:, :, None], candidates)
        if self._config.degree_negatives:
            own = torch.eye(size, scores.shape[-1], dtype=torch.bool)
            scores = scores.masked_fill(own, NO_SCORE if self._config.loss.genre == "Softmax" else 0.0)
        return scores.flatten(0, 1)


def step_losses(loss: LossConfig, positive: torch.Tensor, negative: torch.Tensor, weight: torch.Tensor):
    """The means over positives of their losses and of their negatives' losses; for a joint loss, None and the loss.

    positive (B,), negative (B, N), weight (B,): edge importance.
    """

    def each(x: torch.Tensor) -> torch.Tensor:
        return (loss.margin - x).clamp(min=0) if loss.genre == "Hinge" else softplus(-x)

    if loss.genre == "Softmax":
        together = torch.cat([positive[:, None], negative], 1)
        return None, (weight * (together.logsumexp(-1) - positive)).mean()
    if loss.pairwise:
        return None, (each(positive[:, None] - negative) * weight[:, None]).mean()
    if loss.adversarial:
        negatives = ((loss.temperature * negative).softmax(-1).detach() * each(-negative)).sum(-1)
    else:
        negatives = each(-negative).mean(-1)
    return (weight * each(positive)).mean(), (weight * negatives).mean()


def _leaf(rows: _native.StepRows, ids: np.ndarray, dim: int) -> torch.Tensor:
    out = torch.empty(len(ids), dim)
    rows.gather(ids, out.numpy())
    return out.requires_grad_()


def _penalty(loss: LossConfig, leaves) -> torch.Tensor:
    if not (loss.regularization_coefficient > 0 and loss.regularization_norm > 0):
        return torch.zeros(())
    return loss.regularization_coefficient * sum(leaf.abs().pow(loss.regularization_norm).sum() for leaf in leaves)
