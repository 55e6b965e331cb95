"""The training step for a custom model: torch scores that autograd differentiates, the same batches, losses and
updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Tuple

import numpy as np
import torch

from ... import _native
from ...models import TorchModel
from ...models.custom_random import random_numbers_of
from ...models.custom_scores import differentiates, custom_scores
from ...models.custom_state import has_state, views
from .losses import Losses
from .step import HostStep
from .step_config import StepConfig


class AutogradStep(HostStep):
    """Computes one step of a TorchModel on rows of the store."""

    def __init__(self, config: StepConfig, model: TorchModel, stream: Tuple[int, ...]):
        """stream: of the model's random numbers, see random_numbers_of."""
        super().__init__()
        self._config, self._model, self._stream = config, model, stream
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

    def trained_arrays(self):
        return {name: array for name, array in self.state_arrays().items() if name.startswith("own-sum")}

    def _train(self, batch, entities, relations):
        with random_numbers_of(batch.step, self._stream):
            return self._train_seeded(batch, entities, relations)

    def _train_seeded(self, batch, entities, relations):
        config = self._config
        if isinstance(self._model, torch.nn.Module):
            self._model.train()  # which a ranking has changed
        if self._optimizer is not None:
            self._optimizer.zero_grad()
        positive_slots = np.flatnonzero(np.diff(batch.positive_offset))
        positive_ids = batch.entities[positive_slots]
        nodes = _tracked(entities, positive_ids, config.entity_dim)
        negatives = _tracked(entities, batch.negative, config.entity_dim)
        edges = _tracked(relations, batch.relation, config.relation_dim)

        head, tail = (nodes[torch.from_numpy(np.searchsorted(positive_ids, ids))] for ids in (batch.head, batch.tail))
        scores = [custom_scores(self._model, head, edges, tail),
                  self._negative_scores(batch, head, edges, tail, negatives)]
        slopes, losses = self._slopes(batch, *(each.detach() for each in scores))
        with differentiates(self._model, on_gpu=False):
            torch.autograd.backward(scores, slopes)
        if self._optimizer is not None:
            self._optimizer.step()

        amounts = []
        for rows, entries in ((entities, ((positive_ids, nodes), (batch.negative, negatives))),
                              (relations, ((batch.relation, edges),))):
            rows.copy_to_destination()
            gradients = []
            for _, tracked in entries:
                gradient = torch.zeros_like(tracked) if tracked.grad is None else tracked.grad.contiguous()
                if config.loss.regularized:
                    amount, squares = torch.empty(2, len(tracked))
                    _native.penalize(config.loss, [(tracked.detach(), None, None, gradient, amount, squares)])
                    amounts.append(amount)
                gradients.append(gradient.numpy())
            rows.apply_entries([(ids, gradient) for (ids, _), gradient in zip(entries, gradients)],
                               config.learning_rate)
        sums = np.zeros(4)
        _native.add_losses(config.loss, losses, torch.cat(amounts) if amounts else None, sums)
        return Losses(*sums.tolist())

    def _slopes(self, batch, positive: torch.Tensor, negative: torch.Tensor):
        """((B,) and (B, N) d loss / d score, losses (B, 2)) of scores positive (B,) and negative (B, N); see
        _native.loss_from_scores."""
        weight = np.array(batch.weight) if len(batch.weight) else None
        own = batch.chunk_size if self._config.degree_negatives else 0
        slope, slopes, losses = torch.empty_like(positive), negative.clone(), positive.new_empty(len(positive), 2)
        _native.loss_from_scores(self._config.loss, positive.contiguous(), slopes, weight, own, slope, losses)
        return (slope, slopes), losses

    def _negative_scores(self, batch, head, edges, tail, negatives) -> torch.Tensor:
        """(B, negatives of a chunk); degree negatives come first."""
        head, edges, tail, candidates = (x.unflatten(0, (batch.chunks, -1)) for x in (head, edges, tail, negatives))
        if self._config.degree_negatives:
            candidates = torch.cat([head if batch.corrupt_head else tail, candidates], 1)
        candidates = candidates[:, None]
        if batch.corrupt_head:
            scores = custom_scores(self._model, candidates, edges[:, :, None], tail[:, :, None])
        else:
            scores = custom_scores(self._model, head[:, :, None], edges[:, :, None], candidates)
        return scores.flatten(0, 1)


def _tracked(rows: _native.StepRows, ids: np.ndarray, dim: int) -> torch.Tensor:
    out = torch.empty(len(ids), dim)
    rows.gather(ids, out.numpy())
    return out.requires_grad_()
