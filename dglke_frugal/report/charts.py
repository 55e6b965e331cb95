"""Which curves a report shows, as data: what draws them, on a page or into a file, is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from .run_log import RunLog

# Okabe and Ito's palette, which people with colour blindness can tell apart; yellow left out, it is faint on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8a8f98")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "4 2 1 2", "1 4", "14 3 4 3")  # with the colours, 56 styles
MOST_POINTS = 800  # of a curve; longer ones are averaged
LONGEST_LABEL = 60


@dataclass(frozen=True)
class Curve:
    """A line of a chart."""

    label: str
    colour: str
    dash: str  # an SVG dash pattern
    points: Sequence[Tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Curves over the steps. percent: values are shares; from_zero: the axis starts at 0."""

    title: str
    note: str
    curves: Sequence[Curve]
    percent: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart that there may be.

    metrics: (name, label) of its curves, the most telling first; several runs show the first `of_several` alone.
    """

    title: str
    note: str
    metrics: Tuple[Tuple[str, str], ...]
    percent: bool = False
    from_zero: bool = False
    of_several: int = 1

    def chart(self, runs: Sequence[RunLog], names: Sequence[str]) -> Chart:
        """The curves that these runs have. One run has a colour for each metric; of several, each run has one."""
        curves = []
        metrics = self.metrics if len(runs) == 1 else self.metrics[: self.of_several]
        for number, (run, name) in enumerate(zip(runs, names)):
            for place, (metric, label) in enumerate(metrics):
                if not run.metric(metric):
                    continue
                if len(runs) == 1:
                    colour, dash, text = COLOURS[place % len(COLOURS)], "", label
                else:
                    turn = number // len(COLOURS) * len(metrics) + place
                    colour, dash = COLOURS[number % len(COLOURS)], DASHES[turn % len(DASHES)]
                    text = name if len(metrics) == 1 else f"{name}: {label}"
                curves.append(Curve(text, colour, dash, thinned(run.metric(metric))))
        return Chart(self.title, self.note, curves, self.percent, self.from_zero)


PANELS = (
    Panel("Training loss", "means between log lines",
          (("train/loss", "loss"), ("train/pos_loss", "positives"), ("train/neg_loss", "negatives"))),
    Panel("Validation", "filtered or sampled as the run's flags say",
          (("valid/MRR", "MRR"), ("valid/HITS@10", "HITS@10"), ("valid/HITS@3", "HITS@3"), ("valid/HITS@1", "HITS@1")),
          from_zero=True, of_several=2),
    Panel("Mean rank in validation", "lower is better", (("valid/MR", "mean rank"),), from_zero=True),
    Panel("Throughput", "positive triples (of kvsall queries) per second of a process, validations left out",
          (("train/triples_per_second", "triples/s"),), from_zero=True),
    Panel("Waiting", "share of the time",
          (("train/stall_share", "stalled: rows were not ready"), ("train/sample_wait_share", "waiting for batches")),
          percent=True, from_zero=True, of_several=2),
    Panel("Cache hits", "share of the rows that steps used", (("store/hit_share", "hits"),), percent=True,
          from_zero=True),
    Panel("Rows moved", "bytes between log lines",
          (("store/bytes_read", "read from host memory"), ("store/bytes_flushed", "flushed to host memory")),
          from_zero=True, of_several=2),
    Panel("Learning rate", "as validations lower it", (("train/lr", "learning rate"),), from_zero=True),
    Panel("Regularization", "part of the loss", (("train/regularization", "regularization"),)))


def charts(runs: Sequence[RunLog], names: Sequence[str]) -> List[Chart]:
    """The charts for which at least one run has a curve."""
    found = [panel.chart(runs, names) for panel in PANELS]
    return [chart for chart in found if chart.curves]


def thinned(points: Sequence[Tuple[int, float]]) -> List[Tuple[float, float]]:
    """At most MOST_POINTS points: means of neighbours, each at its last step; the last point stays."""
    together = -(-len(points) // MOST_POINTS)
    groups = [points[begin : begin + together] for begin in range(0, len(points), max(1, together))]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def short_label(text: str) -> str:
    """The end of a long name, which in paths such as Freebase's relations says most."""
    return text if len(text) <= LONGEST_LABEL else "..." + text[-LONGEST_LABEL:]
