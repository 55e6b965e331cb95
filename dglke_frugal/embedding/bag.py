"""`EmbeddingBag`: the sum or mean of the rows of each bag."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from .. import _native
from ..optim import RowOptimizer
from ..store.request import Request
from .compiling import not_compiled
from .functions import Bags, ReadBags, SumBags, of_type
from .module import KINDS, Embedding

MODES = ("sum", "mean")


class EmbeddingBag(Embedding):
    """Embedding whose forward gives one row per bag of ids: their sum, or their mean.

    Rows are added in the order of ids, beginning with 0. All else is as for Embedding; an id that occurs in several
    bags gets the sum of their gradients, in the order of ids.
    """

    def __init__(self, num_embeddings: Optional[int] = None, embedding_dim: int = 0,
                 optimizer: Optional[RowOptimizer] = None, *, mode: str = "mean", include_last_offset: bool = False,
                 **settings: Any):
        """mode: "sum" or "mean". include_last_offset: as torch.nn.EmbeddingBag. settings: as for Embedding."""
        if mode not in MODES:
            raise ValueError(f"mode is {' or '.join(MODES)}, not {mode!r}")
        super().__init__(num_embeddings, embedding_dim, optimizer, **settings)
        self.mode, self.include_last_offset = mode, include_last_offset

    @not_compiled
    def forward(self, ids: torch.Tensor, offsets: Optional[torch.Tensor] = None,
                per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        """(B, embedding_dim): of ids (B, k), or of ids (n,) with offsets (B,), where each bag begins.

        An empty bag gives zeros; ids equal to padding_idx are left out. per_sample_weights: floating point numbers of
        ids' shape, with mode "sum" only; it gets a gradient as well.
        """
        bags, dtype = self._bags(ids, offsets), self._handle.dtype
        if per_sample_weights is not None:
            self._check_weights(ids, per_sample_weights)
            values, ticket, _ = self._read(ids)
            rows = self._rows(values, ticket, values.shape, torch.float32)
            weights = per_sample_weights.to(torch.float32)
            if self.padding_idx is not None:  # whose weight may be any number, or none
                weights = weights.masked_fill(ids.to(weights.device) == self.padding_idx, 0)
            return of_type(SumBags.apply(rows * weights.reshape(-1, 1), bags), dtype)
        values, ticket, request = self._read(ids)
        counts = None if self.mode == "sum" else self._counts(bags, request).to(values.device, dtype)
        if ticket is not None:
            return ReadBags.apply(self._handle, values, bags, counts, dtype, self._receive, ticket)
        sums = of_type(bags.sums(values), dtype)
        return sums if counts is None else sums / counts

    def _check_weights(self, ids: torch.Tensor, weights: torch.Tensor) -> None:
        if self.mode != "sum":
            raise ValueError("per_sample_weights need mode='sum'")
        if not isinstance(weights, torch.Tensor) or not weights.is_floating_point():
            raise ValueError("per_sample_weights are a tensor of floating point numbers")
        if weights.shape != ids.shape:
            raise ValueError(f"per_sample_weights {tuple(weights.shape)} need the shape of the ids, {tuple(ids.shape)}")

    def _counts(self, bags: Bags, request: Request) -> torch.Tensor:
        """(B, 1) float32: the ids of each bag that are none of padding, at least 1. Keys without a row count, since
        they read their start values."""
        counted = slice(None) if self.padding_idx is None else request.ids != _native.NO_ROW
        present = np.bincount(bags.of_id[counted], minlength=len(bags))
        return torch.from_numpy(np.maximum(present, 1).astype(np.float32))[:, None]

    def _bags(self, ids: torch.Tensor, offsets: Optional[torch.Tensor]) -> Bags:
        if not isinstance(ids, torch.Tensor):
            raise ValueError("ids are a tensor of int64 or int32")
        if ids.dim() == 2:
            if offsets is not None:
                raise ValueError("offsets are for ids of one dimension; those of two dimensions are a bag per row")
            return Bags(np.arange(len(ids) + 1) * ids.shape[1])
        if ids.dim() != 1 or offsets is None:
            raise ValueError("ids are (B, k), or (n,) with offsets (B,)")
        if not isinstance(offsets, torch.Tensor) or offsets.dtype not in KINDS or offsets.dim() != 1:
            raise ValueError("offsets are a tensor (B,) of int64 or int32")
        begins = offsets.numpy(force=True).astype(np.int64)
        if not self.include_last_offset:
            begins = np.append(begins, len(ids))
        if not len(begins) or begins[0] != 0 or begins[-1] != len(ids) or (begins[1:] < begins[:-1]).any():
            raise ValueError("offsets begin with 0, do not fall, and stay within the ids")
        return Bags(begins)
