"""What dglke 0.1.2 gets wrong on a current PyTorch, put right where dglke looks it up."""
from __future__ import annotations

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


def _arange(*arguments):
    return backend.arange(*arguments).as_subclass(_Positions)


def repair(infer) -> None:
    """Repair the top-k of dglke_predict and dglke_emb_sim; `infer` is the module dglke.models.infer."""
    infer.F = ModuleView(backend, arange=_arange)
