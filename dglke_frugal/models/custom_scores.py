"""Checked scores of a custom score function; all code that asks a TorchModel for scores asks here."""
from __future__ import annotations

import contextlib
import traceback
from typing import Iterator, Optional

import torch

from ..divergence import Diverged
from ..errors import InputError, first_line, shortage
from .torch_model import TorchModel

_KINDS = ("head", "relation", "tail")


def custom_scores(model: TorchModel, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """`model.score` of rows, as float32.

    Raises InputError, which names the class, for an error in the function itself, for rows that it changes, or for what
    is no tensor of one floating point number for each triple on the device of the rows; where gradients are wanted also
    for scores that do not depend on the rows.
    """
    rows = head, relation, tail
    before = [_version(each) for each in rows]
    try:
        scores = model.score(*rows)
    except Exception as error:
        if _is_of_machine(error, head.is_cuda):
            raise
        raise _why_not(model, f"failed{_place(error)}: {type(error).__name__}: {first_line(error)}") from error
    changed = [kind for kind, each, version in zip(_KINDS, rows, before) if _version(each) != version]
    if changed:
        raise _why_not(model, f"changes {' and '.join(changed)} in place, of which other scores are made as well; "
                              "compute new tensors, as by head * 2 in place of head *= 2")
    if not isinstance(scores, torch.Tensor):
        raise _why_not(model, f"returns {type(scores).__name__}; return a tensor of scores")
    shape = torch.broadcast_shapes(*(each.shape[:-1] for each in rows))
    if scores.shape != shape:
        given = ", ".join(f"{kind} {tuple(each.shape)}" for kind, each in zip(_KINDS, rows))
        raise _why_not(model, f"returns shape {tuple(scores.shape)} for {given}; return one score for each triple, "
                              f"shape {tuple(shape)}")
    if not scores.is_floating_point():
        raise _why_not(model, f"returns {scores.dtype} numbers; return float32")
    if scores.device != head.device:
        raise _why_not(model, f"returns scores on {scores.device} for rows on {head.device}; keep what it needs on the "
                              "device of the rows")
    if torch.is_grad_enabled() and head.requires_grad and not scores.requires_grad:
        raise _why_not(model, "returns scores without a gradient, from which nothing is learned; compute them from "
                              "head, relation and tail by torch's operations, without detach() and no_grad()")
    return scores.float()


@contextlib.contextmanager
def differentiates(model: TorchModel, on_gpu: bool) -> Iterator[None]:
    """Within it autograd differentiates scores of the model. InputError, which names the class, where it cannot."""
    try:
        yield
    except Exception as error:
        if _is_of_machine(error, on_gpu):
            raise
        raise _why_not(model, f"has no gradient: {type(error).__name__}: {first_line(error)}") from error


def rankable_scores(model: TorchModel, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """custom_scores that candidates may be ordered by: minus infinity, for what cannot be, is one of them.

    Raises Diverged for NaN and plus infinity.
    """
    scores = custom_scores(model, head, relation, tail)
    bad = scores.isnan() | (scores == torch.inf)
    if bad.any():
        raise diverged_scores(model, float(scores[bad][0]))
    return scores


def diverged_scores(model: TorchModel, score: float) -> Diverged:
    """The error of a score that cannot be ranked."""
    return Diverged(f"score() of the model {model.name} returns {score}", "use a smaller --lr, or mend the function if "
                    "it gives such scores of finite rows")


def _why_not(model: TorchModel, what: str) -> InputError:
    return InputError(f"score() of the model {model.name} {what}")


def _place(error: Exception) -> str:
    """Where in the user's file, as the middle of a sentence."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is this module's
    return f" in {frames[0].filename}, line {frames[0].lineno}" if frames else ""


def _version(rows: torch.Tensor) -> Optional[int]:
    """How often the tensor has been written to; None where torch does not count."""
    return None if rows.is_inference() else rows._version


def _is_of_machine(error: Exception, on_gpu: bool) -> bool:
    """Whether the error says nothing of the function: too little memory, or a device that fails or cannot record what
    the function does."""
    if isinstance(error, InputError) or shortage(error) is not None:
        return True
    return on_gpu and isinstance(error, RuntimeError) and (
        torch.cuda.is_current_stream_capturing() or isinstance(error, torch.OutOfMemoryError) or "CUDA" in str(error))
