"""What a run says while it trains: DGL-KE's lines, which scripts parse, a progress bar, and numbers for the trackers."""
from __future__ import annotations

import time
from typing import Dict

from ..progress import progress


class Report:
    """Averages losses between log lines. `rank` is the number in front of each line."""

    def __init__(self, first_step: int, max_step: int, log_interval: int, batch_size: int, tracker, rank: int = 0):
        self._max_step, self._interval, self._batch_size = max_step, log_interval, batch_size
        self._tracker, self._rank = tracker, rank
        self._bar = progress(max_step, "training", "steps", initial=first_step)
        self._began = time.perf_counter()
        self._seconds: Dict[str, float] = {}
        self._start_interval()

    def _start_interval(self):
        self._steps, self._sums, self._interval_began = 0, {}, time.perf_counter()

    def step(self, done: int, losses, loop) -> None:
        """Step number `done` (counted from 1) has run."""
        named = {"pos_loss": losses.positive, "neg_loss": losses.negative,
                 "loss": losses.total - losses.regularization, "regularization": losses.regularization}
        for name, value in named.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._steps += 1
        self._bar.update(1)
        if done % self._interval == 0:
            self._log(done, loop)

    def _log(self, done, loop):
        means = {name: total / self._steps for name, total in self._sums.items()}
        seconds = time.perf_counter() - self._interval_began
        for name, mean in means.items():
            self._say(f"[proc {self._rank}][Train]({done}/{self._max_step}) average {name}: {mean}")
        self._say(f"[proc {self._rank}][Train] {self._steps} steps take {seconds:.3f} seconds")
        now = {"sample": loop.sample_seconds, "gate": loop.gate_seconds, "step": loop.step_seconds}
        spent = {name: value - self._seconds.get(name, 0.0) for name, value in now.items()}
        self._seconds = now
        self._say(f"[proc {self._rank}]" + ", ".join(f"{name}: {value:.3f}" for name, value in spent.items()))
        rate = self._steps * self._batch_size / seconds
        self._tracker.log({**{f"train/{name}": mean for name, mean in means.items()}, "train/triples_per_second": rate,
                           "train/stall_share": spent["gate"] / seconds,
                           "train/sample_wait_share": spent["sample"] / seconds}, done)
        if hasattr(self._bar, "set_postfix"):
            self._bar.set_postfix(loss=f"{means['loss']:.4f}", triples_per_s=f"{rate:,.0f}", stall=f"{spent['gate'] / seconds:.1%}")
        self._start_interval()

    def _say(self, line):
        if hasattr(self._bar, "write"):
            self._bar.write(line)
        else:
            print(line, flush=True)

    def close(self):
        """The training is over."""
        self._bar.close()
        self._say(f"proc {self._rank} takes {time.perf_counter() - self._began:.3f} seconds")
