"""Several GPUs with a bus each, on paper: the time of a step from rates that `benchmarks.ranks` measured on one or two.
"""
from __future__ import annotations

from typing import Any, List, Mapping, Tuple

RANKS = (2, 4, 8)
RECORD_BYTES, GRADIENT_BYTES = 4 * 416, 4 * 400  # at dim 400: a row is whole lines, a gradient is not
ABOUT = """\
A step of n ranks, each with a GPU and a bus of its own, takes max(d + o + g(n), m(n)):

- d: a step of one rank on one GPU, reading and writing rows over its bus included (measured)
- g(n): the gradients of rows that several ranks touch, n times those of a rank (counted), at the rate of a flush thread
  (measured) times the number of threads; nothing of a step can begin before
- o: what two ranks take beyond d + g(2), or 2 d + g(2) if they share a GPU (measured): the way from one step's end to
  the next one's start, by flush threads that look, ranks that wake, and launches, which one rank alone hides
- m(n): each row read and written once in host memory, each gradient too, n times, at the rate of a copy by all cores
  (measured)
"""


class StepModel:
    """See ABOUT. All times are in seconds.

    result: of benchmarks.ranks on GPUs with 1 and 2 ranks. graph: one of its counts. relations_apart: as with
    --rel_part, no relation has several ranks.
    """

    def __init__(self, result: Mapping[str, Any], graph: str, relations_apart: bool = False):
        self._result, self._graph, self._apart = result, graph, relations_apart
        self._counts = result["counts"][graph]
        self.device = self.measured(1)

    def measured(self, ranks: int) -> float:
        """A step of all ranks on the GPUs of the benchmark."""
        return ranks / self._result["ranks"][str(ranks)]["p2f"]["steps_per_second"]

    @property
    def between(self) -> float:
        """o, from the graph that the ranks were measured on."""
        if self._apart or self._graph != self._result["dataset"]:
            return StepModel(self._result, self._result["dataset"]).between
        return max(0.0, self.measured(2) - self._in_turn(2) - self.applying(2))

    def _in_turn(self, ranks: int) -> float:
        """A step of the ranks that share a GPU of the benchmark, one after the other."""
        return -(-ranks // len(self._result["gpus"])) * self.device

    def _gradients(self, ranks: int) -> float:
        counts = self._counts[str(ranks)]
        return ranks * (counts["gradients"] + (0 if self._apart else counts["relation_gradients"]))

    def applying(self, ranks: int) -> float:
        """g(n)."""
        return self._gradients(ranks) / (self._result["flush_threads"] * self._result["gradients_per_second"])

    def memory(self, ranks: int) -> float:
        """m(n)."""
        rows = ranks * (self._counts[str(ranks)]["rows"] + self._counts[str(ranks)]["relation_rows"])
        moved = 2 * (rows * RECORD_BYTES + self._gradients(ranks) * GRADIENT_BYTES)
        return moved / (1e9 * self._result["host_memory_gb_s"])

    def step(self, ranks: int) -> float:
        """A step of that many GPUs."""
        return max(self.device + self.between + self.applying(ranks), self.memory(ranks))

    def step_there(self, ranks: int) -> float:
        """A step on the GPUs of the benchmark, to set beside what was measured."""
        return self._in_turn(ranks) + self.between + self.applying(ranks)


def is_measured(result: Mapping[str, Any]) -> bool:
    """Whether a result has all that the model needs."""
    return bool(result.get("gpus")) and {"1", "2"} <= result.get("ranks", {}).keys() and "counts" in result


def rows(result: Mapping[str, Any]) -> Tuple[List[str], List[List[float]]]:
    """Heads and rows of a table: milliseconds of the parts of a step, by graph and number of GPUs."""
    heads = ["graph, GPUs", "d + o, ms", "g, ms", "m, ms", "step, ms", "triples/s", "over one GPU"]
    table = []
    for graph in result["counts"]:
        for apart in (False, True):
            model = StepModel(result, graph, apart)
            for ranks in RANKS:
                step = model.step(ranks)
                table.append([f"{graph}{', relations apart' if apart else ''}, {ranks}",
                              1e3 * (model.device + model.between), 1e3 * model.applying(ranks),
                              1e3 * model.memory(ranks), 1e3 * step, ranks * result["batch_size"] / step,
                              ranks * model.device / step])
    return heads, table


def check(result: Mapping[str, Any]) -> List[str]:
    """Sentences that set the model beside measurements it was not made from: more ranks on the same GPUs."""
    model = StepModel(result, result["dataset"])
    gpus = f"{len(result['gpus'])} GPU{'s' * (len(result['gpus']) > 1)}"
    return [f"{ranks} ranks on {gpus}, by the model: {1e3 * model.step_there(int(ranks)):.2f} ms a step; measured: "
            f"{1e3 * model.measured(int(ranks)):.2f} ms."
            for ranks in result["ranks"] if int(ranks) > 2 and ranks in result["counts"][result["dataset"]]]
