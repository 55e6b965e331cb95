"""What a user's own score function gives, checked: whoever asks a TorchModel for scores asks here."""
from __future__ import annotations

import traceback

import torch

from ..divergence import Diverged
from ..errors import InputError, first_line
from .torch_model import TorchModel

_KINDS = ("head", "relation", "tail")


def own_scores(model: TorchModel, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """`model.score` of rows, as float32.

    Raises InputError, which names the class, for an error in the function itself, or for what is no tensor of one
    floating point number for each triple on the device of the rows; where gradients are wanted also for scores that do
    not depend on the rows.
    """
    rows = head, relation, tail
    try:
        scores = model.score(*rows)
    except (MemoryError, InputError):
        raise
    except Exception as error:
        if head.is_cuda and isinstance(error, RuntimeError) and _is_of_device(error):
            raise
        raise _refusal(model, f"failed{_place(error)}: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(scores, torch.Tensor):
        raise _refusal(model, f"returns {type(scores).__name__}; return a tensor of scores")
    shape = torch.broadcast_shapes(*(each.shape[:-1] for each in rows))
    if scores.shape != shape:
        given = ", ".join(f"{kind} {tuple(each.shape)}" for kind, each in zip(_KINDS, rows))
        raise _refusal(model, f"returns shape {tuple(scores.shape)} for {given}; return one score for each triple, "
                              f"shape {tuple(shape)}")
    if not scores.is_floating_point():
        raise _refusal(model, f"returns {scores.dtype} numbers; return float32")
    if scores.device != head.device:
        raise _refusal(model, f"returns scores on {scores.device} for rows on {head.device}; keep what it needs on the "
                              "device of the rows")
    if torch.is_grad_enabled() and head.requires_grad and not scores.requires_grad:
        raise _refusal(model, "returns scores without a gradient, from which nothing is learned; compute them from "
                              "head, relation and tail by torch's operations, without detach() and no_grad()")
    return scores.float()


def rankable_scores(model: TorchModel, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """own_scores that candidates may be ordered by: minus infinity, for what cannot be, is one of them.

    Raises Diverged for NaN and plus infinity.
    """
    scores = own_scores(model, head, relation, tail)
    bad = scores.isnan() | (scores == torch.inf)
    if bad.any():
        raise diverged_scores(model, float(scores[bad][0]))
    return scores


def diverged_scores(model: TorchModel, score: float) -> Diverged:
    """The error of a score that cannot be ranked."""
    return Diverged(f"score() of the model {model.name} returns {score}", "use a smaller --lr, or mend the function if "
                    "it gives such scores of finite rows")


def _refusal(model: TorchModel, what: str) -> InputError:
    return InputError(f"score() of the model {model.name} {what}")


def _place(error: Exception) -> str:
    """Where in the user's own file, as the middle of a sentence."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is this module's
    return f" in {frames[0].filename}, line {frames[0].lineno}" if frames else ""


def _is_of_device(error: RuntimeError) -> bool:
    """Whether the device itself has failed, has too little memory, or cannot record what the function does."""
    return torch.cuda.is_current_stream_capturing() or isinstance(error, torch.OutOfMemoryError) or "CUDA" in str(error)
