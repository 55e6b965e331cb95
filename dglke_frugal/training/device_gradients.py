"""Gradients of a step by its leaves, on a device: twin of csrc/step/gradients.h.

Leaves are the rows as the step uses them: both ends and the relation of each positive, and each sampled negative.
"""
from __future__ import annotations

from typing import NamedTuple, Optional

import torch

from ..models import TorchModel
from ..models.device import DeviceModel
from ..models.device.model import Positives
from .device_batch import BatchForm
from .device_loss import ScoreSlopes, score_slopes
from .step import LossConfig


class Leaves(NamedTuple):
    """Rows, or their gradients. B positives in chunks, N negatives in all."""

    head: torch.Tensor  # (B, entity_dim)
    tail: torch.Tensor  # (B, entity_dim)
    relation: torch.Tensor  # (B, relation_dim)
    negative: torch.Tensor  # (N, entity_dim), chunk after chunk
    projection: Optional[torch.Tensor] = None  # (B, entity_dim * relation_dim): by the positive's own score (TransR)
    projection_of_negatives: Optional[torch.Tensor] = None  # the same through the scores of its negatives


class GradientPass:
    """`run` gives the gradients of the loss without regularization, and the slopes they came from."""

    def __init__(self, loss: LossConfig, degree_negatives: bool):
        self._loss, self._degree_negatives = loss, degree_negatives

    def run(self, form: BatchForm, rows: Leaves, weight: Optional[torch.Tensor]):
        """Returns (Leaves, ScoreSlopes)."""
        raise NotImplementedError

    def _candidates(self, form: BatchForm, rows: Leaves) -> torch.Tensor:
        """(chunks, columns, entity_dim): sampled negatives; with degree negatives the chunk's own side before them."""
        negative = rows.negative.unflatten(0, (form.chunks, form.negatives))
        if not self._degree_negatives:
            return negative
        own = rows.head if form.corrupt_head else rows.tail
        return torch.cat([own.unflatten(0, (form.chunks, -1)), negative], 1)

    def _without_own(self, form: BatchForm, values: torch.Tensor) -> torch.Tensor:
        """values (chunks, C, columns) with 0 where a positive meets its own corrupted side."""
        if not self._degree_negatives:
            return values
        own = torch.eye(values.shape[1], values.shape[2], dtype=torch.bool, device=values.device)
        return values.masked_fill(own, 0.0)

    def _slopes(self, form: BatchForm, positive: torch.Tensor, scores: torch.Tensor, weight) -> ScoreSlopes:
        scores = self._without_own(form, scores)
        slopes = score_slopes(self._loss, positive, scores.flatten(0, 1), weight)
        if not self._degree_negatives:
            return slopes
        return slopes._replace(negative=self._without_own(form, slopes.negative.view_as(scores)).flatten(0, 1))

    def _collect(self, form: BatchForm, fixed, relation, corrupted, of_candidates, **projections) -> Leaves:
        """of_candidates: gradients of _candidates; those of the chunk's own side are added to its positives' own."""
        if self._degree_negatives:
            size = form.positives // form.chunks
            corrupted = corrupted + of_candidates[:, :size].flatten(0, 1)
            of_candidates = of_candidates[:, size:]
        head, tail = (corrupted, fixed) if form.corrupt_head else (fixed, corrupted)
        return Leaves(head, tail, relation, of_candidates.flatten(0, 1), **projections)


def _positives(form: BatchForm, rows: Leaves) -> Positives:
    fixed, corrupted = (rows.tail, rows.head) if form.corrupt_head else (rows.head, rows.tail)
    return Positives(fixed, rows.relation, corrupted, form.corrupt_head, rows.projection)


class SharedPass(GradientPass):
    """For all models in which a negative's row is compared as it is."""

    def __init__(self, model: DeviceModel, loss: LossConfig, degree_negatives: bool):
        super().__init__(loss, degree_negatives)
        self._model = model

    def run(self, form, rows, weight):
        model, x = self._model, _positives(form, rows)
        query, positive, saved = model.forward(x)
        candidates, by_chunk = self._candidates(form, rows), query.unflatten(0, (form.chunks, -1))
        scores, compared = model.compare.score(by_chunk, candidates)
        slopes = self._slopes(form, positive, scores, weight)
        by_score = slopes.negative.view_as(scores)
        of_query, of_candidates = model.compare.gradients(by_chunk, candidates, by_score, compared)
        gradients = model.backward(x, saved, slopes.positive[:, None], of_query.flatten(0, 1))
        return self._collect(form, *gradients, of_candidates), slopes


class ProjectedPass(GradientPass):
    """For TransR, which projects every negative for each positive."""

    def __init__(self, model: DeviceModel, loss: LossConfig, degree_negatives: bool):
        super().__init__(loss, degree_negatives)
        self._model = model

    def run(self, form, rows, weight):
        model, x = self._model, _positives(form, rows)
        products, (entity, relation) = model.products, (model.shape.entity_dim, model.shape.relation_dim)
        query, positive, saved = model.forward(x)
        candidates = self._candidates(form, rows)
        columns, size = candidates.shape[1], form.positives // form.chunks
        # A chunk's matrices side by side, so that one product projects its negatives for all its positives.
        matrices = model.matrices(x).unflatten(0, (form.chunks, size)).permute(0, 2, 1, 3)
        matrices = matrices.reshape(form.chunks, entity, -1)
        projected = products.bmm(candidates, matrices).view(form.chunks, columns, size, relation)
        projected = projected.permute(0, 2, 1, 3).reshape(form.positives, columns, relation)
        scores, compared = model.compare.score(query[:, None], projected)
        slopes = self._slopes(form, positive, scores.view(form.chunks, size, columns), weight)
        of_query, of_projected = model.compare.gradients(query[:, None], projected, slopes.negative[:, None], compared)
        of_query = of_query[:, 0]

        of_projected = of_projected.view(form.chunks, size, columns, relation).permute(0, 2, 1, 3).flatten(2)
        of_candidates = products.bmm(of_projected, matrices.transpose(1, 2))
        of_matrices = products.bmm(candidates.transpose(1, 2), of_projected).view(form.chunks, entity, size, relation)
        of_matrices = of_matrices.permute(0, 2, 1, 3).reshape(form.positives, entity, relation)
        of_matrices += x.fixed[:, :, None] * of_query[:, None, :]
        fixed, of_relation, corrupted, own = model.backward(x, saved, slopes.positive[:, None], of_query)
        return self._collect(form, fixed, of_relation, corrupted, of_candidates, projection=own,
                             projection_of_negatives=of_matrices.flatten(1)), slopes


class AutogradPass(GradientPass):
    """For a user's own model: autograd differentiates its scores, all else is as for the others."""

    def __init__(self, model: TorchModel, loss: LossConfig, degree_negatives: bool):
        super().__init__(loss, degree_negatives)
        self._model = model

    def run(self, form, rows, weight):
        leaves = Leaves(*(x if x is None else x.detach().requires_grad_() for x in rows))
        with torch.enable_grad():
            positive = self._model.score(leaves.head, leaves.relation, leaves.tail)
            chunked = {name: getattr(leaves, name).unflatten(0, (form.chunks, -1))[:, :, None]
                       for name in ("head", "relation", "tail")}
            chunked["head" if form.corrupt_head else "tail"] = self._candidates(form, leaves)[:, None]
            scores = self._model.score(chunked["head"], chunked["relation"], chunked["tail"])
        slopes = self._slopes(form, positive.detach(), scores.detach(), weight)
        inputs = leaves[:4]
        by_score = [slopes.positive, slopes.negative.view_as(scores)]
        found = torch.autograd.grad([positive, scores], inputs, by_score, allow_unused=True)
        return Leaves(*(torch.zeros_like(x) if g is None else g.contiguous() for x, g in zip(inputs, found))), slopes
