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

from ..step.step_config import LossConfig


def weighted_penalty(kind: str, loss: LossConfig, rows: torch.Tensor, times: torch.Tensor,
                     triples: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """The penalty () float64 of rows (n, dim) that occur times (n,) in a batch of `triples`, and its gradient."""
    norm = 3.0 if kind == "n3" else float(loss.regularization_norm)
    share = loss.regularization_coefficient / triples
    if kind == "n3":
        numbers = rows.unflatten(-1, (2, -1))
        modulus = torch.linalg.vector_norm(numbers, dim=-2, keepdim=True)
        slope = (numbers * modulus).flatten(-2)
    elif norm == 3.0:
        slope = rows.abs() * rows
    elif norm == 2.0:
        slope = rows.clone()
    elif norm == 1.0:
        slope = rows.sign()
    else:
        magnitude = rows.abs()
        slope = magnitude.pow(norm - 1.0).mul_(rows.sign()).masked_fill_(magnitude == 0, 0.0)
    by_row = (slope * rows).sum(-1).double() * times
    return share / norm * by_row.sum(), slope.mul_((share * times.to(rows.dtype))[:, None])
