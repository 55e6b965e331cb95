"""Gradients of a step by the rows of its edges, on a device; the reference is csrc/step/gradients.h.

EdgeRows are the rows as the step uses them: both ends and the relation of each positive, and each sampled negative.
"""
from __future__ import annotations

from typing import NamedTuple, Optional, Union

import torch

from ... import _native
from ...models import TorchModel
from ...models.custom_scores import differentiates, custom_scores
from ...models.device import DeviceModel
from ...models.device.model import Positives
from ...store.device.device import Device
from .device_batch import BatchForm
from .step_config import LossConfig


class EdgeRows(NamedTuple):
    """Rows, or their gradients. B positives in chunks, N negatives in all.

    Rows that are matrices may be given as models.device.matrices.TableMatrices; their gradients are then Factors.
    """

    head: torch.Tensor  # (B, entity_dim)
    tail: torch.Tensor  # (B, entity_dim)
    relation: torch.Tensor  # (B, relation_dim)
    negative: torch.Tensor  # (N, entity_dim), chunk after chunk
    projection: Optional[torch.Tensor] = None  # (B, entity_dim * relation_dim): by the positive's own score (TransR)
    projection_of_negatives: Optional[torch.Tensor] = None  # the same through the scores of its negatives


class StepSlopes(NamedTuple):
    """The derivatives from which the gradients of a step start, and its losses."""

    positive: torch.Tensor  # (B,) d loss / d score of each positive
    negative: torch.Tensor  # (B, columns) d loss / d score of each negative
    losses: torch.Tensor  # (B, 2) of each positive, 0 if they are joint, and of its negatives


class GradientPass:
    """`run` gives the gradients of the loss without regularization, and the slopes they came from."""

    def __init__(self, model: Union[DeviceModel, TorchModel], loss: LossConfig, degree_negatives: bool, device: Device):
        self._model, self._loss, self._degree_negatives, self._device = model, loss, degree_negatives, device

    def run(self, form: BatchForm, rows: EdgeRows, weight: Optional[torch.Tensor]):
        """Returns (EdgeRows, StepSlopes)."""
        raise NotImplementedError

    def _candidates(self, form: BatchForm, rows: EdgeRows) -> torch.Tensor:
        """(chunks, columns, entity_dim): sampled negatives; with degree negatives the chunk's own side before them."""
        negative = rows.negative.unflatten(0, (form.chunks, form.negatives))
        if not self._degree_negatives:
            return negative
        own = rows.head if form.corrupt_head else rows.tail
        return torch.cat([own.unflatten(0, (form.chunks, -1)), negative], 1)

    def _slopes(self, form: BatchForm, positive: torch.Tensor, scores: torch.Tensor, weight) -> StepSlopes:
        """positive (B,); scores (chunks, C, columns), which become the slopes. Where a positive is compared with its
        own corrupted side there is no slope."""
        scores, own = scores.flatten(0, 1), form.positives // form.chunks if self._degree_negatives else 0
        slopes = StepSlopes(torch.empty_like(positive), scores, positive.new_empty(form.positives, 2))
        _native.loss_from_scores(self._loss, positive, scores, weight, own, slopes.positive, slopes.losses,
                                 self._device.stream)
        return slopes

    def _collect(self, form: BatchForm, fixed, relation, corrupted, of_candidates, **projections) -> EdgeRows:
        """of_candidates: gradients of _candidates; those of the chunk's own side are added to its positives' own."""
        if self._degree_negatives:
            size = form.positives // form.chunks
            corrupted = corrupted + of_candidates[:, :size].flatten(0, 1)
            of_candidates = of_candidates[:, size:]
        head, tail = (corrupted, fixed) if form.corrupt_head else (fixed, corrupted)
        return EdgeRows(head, tail, relation, of_candidates.flatten(0, 1), **projections)


def _positives(form: BatchForm, rows: EdgeRows) -> Positives:
    fixed, corrupted = (rows.tail, rows.head) if form.corrupt_head else (rows.head, rows.tail)
    return Positives(fixed, rows.relation, corrupted, form.corrupt_head, rows.projection)


class SharedPass(GradientPass):
    """For RESCAL, whose negatives are compared as they are, by products."""

    def run(self, form, rows, weight):
        model, x = self._model, _positives(form, rows)
        query, positive, saved = model.forward(x)
        candidates, by_chunk = self._candidates(form, rows), query.unflatten(0, (form.chunks, -1))
        scores = torch.bmm(by_chunk, candidates.transpose(1, 2))
        slopes = self._slopes(form, positive, scores, weight)
        by_score = slopes.negative.view_as(scores)
        of_query, of_candidates = torch.bmm(by_score, candidates), torch.bmm(by_score.transpose(1, 2), by_chunk)
        gradients = model.backward(x, saved, slopes.positive[:, None], of_query.flatten(0, 1))
        return self._collect(form, *gradients, of_candidates), slopes


class ProjectedPass(GradientPass):
    """For TransR, which projects a chunk's negatives for each of its relations."""

    def run(self, form, rows, weight):
        model, x = self._model, _positives(form, rows)
        matrices, (query, positive, saved) = model.matrices(x), model.forward(x)
        in_rows, new, stream = matrices.in_rows(), query.new_empty, self._device.stream
        candidates, query = self._candidates(form, rows).contiguous(), query.contiguous()
        columns, size = candidates.shape[1], form.positives // form.chunks

        projected, distances = new(form.positives, columns, query.shape[1]), new(form.positives, columns)
        in_rows.project(candidates, query, projected, distances, stream)
        scores = (model.shape.gamma - distances).unflatten(0, (form.chunks, size))
        slopes = self._slopes(form, positive, scores, weight)
        of_candidates = torch.empty_like(candidates)
        # The last blocks of a large kernel leave room for the other's, and what follows the first is small.
        side_stream = self._device.side_stream(fills_device=True)
        side_stream.run(lambda: self._project_back(form, in_rows, query, slopes.negative, projected, of_candidates))
        of_query, of_matrices = torch.empty_like(query), new(len(query), candidates.shape[2], query.shape[1])
        in_rows.differentiate_matrices(candidates, query, slopes.negative, projected, of_matrices, of_query, stream)
        of_negatives = matrices.gradient(x.fixed[:, None], of_query[:, None], of_matrices)
        fixed, of_relation, corrupted, own = model.backward(x, saved, slopes.positive[:, None], of_query)
        side_stream.join()
        return self._collect(form, fixed, of_relation, corrupted, of_candidates, projection=own,
                             projection_of_negatives=of_negatives), slopes

    def _project_back(self, form, in_rows, query, slope, projected, of_candidates) -> None:
        chunks = form.chunks
        stripes = query.new_empty(chunks, in_rows.stripes, *of_candidates.shape[1:])
        runs = torch.empty(chunks, form.positives // chunks + 1, dtype=torch.int32, device=query.device)
        in_rows.project_back(query, slope, projected, runs, stripes, self._device.stream)
        torch.sum(stripes, 1, out=of_candidates)


class AutogradPass(GradientPass):
    """For a custom model: autograd differentiates its scores, all else is as for the others."""

    def run(self, form, rows, weight):
        edges = EdgeRows(*(x if x is None else x.detach().requires_grad_() for x in rows))
        with torch.enable_grad():
            positive = custom_scores(self._model, edges.head, edges.relation, edges.tail)
            chunked = {name: getattr(edges, name).unflatten(0, (form.chunks, -1))[:, :, None]
                       for name in ("head", "relation", "tail")}
            chunked["head" if form.corrupt_head else "tail"] = self._candidates(form, edges)[:, None]
            scores = custom_scores(self._model, chunked["head"], chunked["relation"], chunked["tail"])
        slopes = self._slopes(form, positive.detach().contiguous(), scores.detach().clone(), weight)
        inputs = edges[:4]
        by_score = [slopes.positive, slopes.negative.view_as(scores)]
        with differentiates(self._model, on_gpu=scores.is_cuda):
            found = torch.autograd.grad([positive, scores], inputs, by_score, allow_unused=True)
        return EdgeRows(*(torch.zeros_like(x) if g is None else g.contiguous() for x, g in zip(inputs, found))), slopes
