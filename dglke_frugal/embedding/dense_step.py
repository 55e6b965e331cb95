"""The dense part of a training step. Its operations take microseconds on a GPU, so the time to launch them counts."""
from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from ..errors import first_line
from ..optim import RowOptimizer


class _Captured(NamedTuple):
    """inputs: what the graph reads. gradient: what it writes, anew each time."""

    graph: "torch.cuda.CUDAGraph"
    inputs: List[torch.Tensor]
    gradient: torch.Tensor


class DenseStep:
    """Forward, backward and the optimizer's step of the layers behind looked up rows; on a GPU as one CUDA graph.

        step = DenseStep(lambda rows, x, y: loss_of(model(rows, x), y), torch.optim.SGD(model.parameters(), 0.1))
        rows = table(ids)
        table.learn(rows, step(rows, x, y))

    A graph is captured for each set of shapes, after EAGER_STEPS steps with them that are launched operation by
    operation. The captured operations must not depend on numbers of the batch or change from step to step (a schedule
    of the learning rate, say), and the optimizer must allow a capture: torch's SGD does, and optimizers made with
    capturable=True.
    """

    EAGER_STEPS = 3  # while libraries allocate and tune

    def __init__(self, loss_of: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer, graphs: bool = True,
                 group: Optional[Any] = None):
        """loss_of(rows, *inputs): a number. graphs: False to launch each operation on a GPU, too.

        group: of torch.distributed, whose processes train the same layers, each with a batch of its own. They begin
        with the parameters of the first process, and gradients are added up over all of them, as those of a table are:
        so divide the loss by their number. In place of DistributedDataParallel, which is launched operation by
        operation. Call close() before torch.distributed.destroy_process_group. Raises ValueError if the parameters are
        not of one type and on one device, or the optimizer is one of rows.
        """
        if isinstance(optimizer, RowOptimizer):
            raise ValueError("layers are trained by an optimizer of torch.optim; those of dglke_frugal.optim are for "
                             "the rows of tables")
        self._loss_of, self._optimizer, self._graphs, self._group = loss_of, optimizer, graphs, group
        self._parts: Dict[torch.nn.Parameter, torch.Tensor] = {}
        self._joined = None if group is None else self._join()
        self._steps: Dict[Tuple, int] = {}
        self._captured: Dict[Tuple, _Captured] = {}
        weakref.finalize(self, self._captured.clear)  # also where the process ends, and its group with it

    def close(self) -> None:
        """Give the CUDA graphs back: where they add gradients up, torch.distributed.destroy_process_group waits for
        them. Steps to come are launched operation by operation."""
        self._captured.clear()
        self._graphs = False

    def __call__(self, rows: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """The loss's gradient with respect to rows, valid until the next call. The optimizer has made its step.

        inputs: come to the device of rows; in pinned memory they need not be waited for.
        """
        given = [rows.detach(), *inputs]
        captured = self._captured_for(given) if self._graphs and rows.is_cuda else None
        if captured is None:
            return self._compute(*(each.to(rows.device, non_blocking=True) for each in given))
        for at, each in zip(captured.inputs, given):
            at.copy_(each, non_blocking=True)
        captured.graph.replay()
        return captured.gradient

    def _captured_for(self, given: List[torch.Tensor]) -> Optional[_Captured]:
        """The graph for these shapes; None while, or where, there is none."""
        key = tuple((each.shape, each.dtype) for each in given)
        if key not in self._captured:
            steps = self._steps[key] = self._steps.get(key, 0) + 1
            if steps <= self.EAGER_STEPS:
                return None
            try:
                self._captured[key] = self._capture(given)
            except RuntimeError as error:
                print(f"a dense step cannot become a CUDA graph: {first_line(error)}", flush=True)
                self._graphs = False
                return None
        return self._captured[key]

    def _compute(self, rows: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        rows = rows.detach().requires_grad_()
        self._optimizer.zero_grad(set_to_none=True)
        self._loss_of(rows, *inputs).backward()
        if self._joined is not None:
            self._add_up()
        self._optimizer.step()
        return rows.grad

    def _add_up(self) -> None:
        """Gradients become those of all processes, by one all_reduce of an array whose parts they are."""
        # One copy of all: an array that backward adds to takes a launch for each of them.
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad.to_dense() for each in self._parts]
        torch.cat([each.reshape(-1) for each in gradients], out=self._joined)
        dist.all_reduce(self._joined, group=self._group)
        for each, part in self._parts.items():
            each.grad = part

    def _join(self) -> torch.Tensor:
        """Memory for the gradients of all parameters, one after the other."""
        parameters = [each for group in self._optimizer.param_groups for each in group["params"] if each.requires_grad]
        kinds = {(each.dtype, each.device) for each in parameters}
        if len(kinds) != 1:
            raise ValueError(f"gradients are added up over processes where all parameters are of one type and on one "
                             f"device, not of {len(kinds)}")
        first = dist.get_global_rank(self._group, 0)
        joined = torch.empty(sum(each.numel() for each in parameters), dtype=parameters[0].dtype,
                             device=parameters[0].device)
        for each, part in zip(parameters, joined.split([each.numel() for each in parameters])):
            dist.broadcast(each.data, first, group=self._group)
            self._parts[each] = part.view_as(each)
        return joined

    def _capture(self, given: List[torch.Tensor]) -> _Captured:
        """The capture computes nothing; the first replay does."""
        inputs = [torch.empty_like(each, device=given[0].device) for each in given]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(given[0].device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            gradient = self._compute(*inputs)
        return _Captured(graph, inputs, gradient)
