"""Penalties on the rows of a batch, weighted by how often they occur in it, as LibKGE has them.

With B triples in the batch, x a number of a row and n how often the row occurs among heads, tails and relations:

    lp    coefficient / (p B) sum n |x|^p
    n3    coefficient / (3 B) sum n |z|^3 of complex numbers z; Lacroix, Usunier, Obozinski, ICML 2018, whose
          coefficient is a third of this one

Source: LibKGE, kge/model/kge_model.py (weighted penalties), and its pull request 265 (n3).
"""

from __future__ import annotations

from typing import Tuple

import torch

from ... import _native
from ..step.step_config import LossConfig


def weighted_penalty(kind: str, loss: LossConfig, rows: torch.Tensor, times: torch.Tensor, triples: int,
                     stream: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """The penalty () float64 of rows (n, dim) that occur times (n,) int32 in a batch of `triples`, and its gradient."""
    is_complex = kind == "n3"
    norm = 3.0 if is_complex else float(loss.regularization_norm)
    share = loss.regularization_coefficient / triples
    slopes, amounts = torch.empty_like(rows), rows.new_empty(len(rows), dtype=torch.float64)
    _native.penalize_rows(rows, times, norm, is_complex, share, slopes, amounts, stream)
    return share / norm * amounts.sum(), slopes
