"""Repairs of dglke 0.1.2's faults on a current PyTorch or numpy, made where dglke looks the functions up."""
from __future__ import annotations

import types

import numpy
import torch
from dgl import backend

from .modules import ModuleView


class _Positions(torch.Tensor):
    """Integers whose quotient by an integer is an integer again, as in PyTorch before 1.5.

    dglke's top-k splits a position in a flat table of scores by `/` and `%`; a true quotient is no index.
    """

    def __truediv__(self, divisor):
        if self.is_floating_point() or not isinstance(divisor, int):
            return super().__truediv__(divisor)
        return self // divisor


def _positions(*arguments) -> torch.Tensor:
    return backend.arange(*arguments).as_subclass(_Positions)


def repair_top_k(infer: types.ModuleType) -> None:
    """dglke.models.infer: all modes of dglke_predict and dglke_emb_sim but the pairwise ones fail at an index."""
    infer.F = ModuleView(backend, arange=_positions)


def repair_edge_importance(datasets: types.ModuleType) -> None:
    """dglke.dataloader.KGDataset: reading the fourth column asks for numpy.float, gone from numpy 1.24."""
    datasets.np = ModuleView(numpy, float=float)
