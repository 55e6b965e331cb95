"""The log of a run while it trains: DGL-KE's lines, which scripts parse, a progress bar, numbers for the trackers."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, Iterator, Optional

from ...output import log
from ...progress import progress, shows_bars
from .counters import StoreCounters
from .messages import short, time_left

if TYPE_CHECKING:
    from ..run.loop import TrainingLoop

BAR_SECONDS = 0.5  # between two looks at the counters


@dataclass(frozen=True)
class Progress:
    """How far the loop has come at one moment. clock: seconds, pauses left out. waited: seconds that the host has
    waited for its device, None without one."""

    clock: float
    steps: int
    triples: int
    seconds: Dict[str, float]
    store: Optional[StoreCounters]
    waited: Optional[float] = None

    @classmethod
    def of(cls, loop: TrainingLoop, pauses: float = 0.0) -> "Progress":
        """The loop at this moment; `pauses` are the seconds to leave out."""
        device = loop.tables.entity.device
        return cls(time.perf_counter() - pauses, loop.steps, loop.triples, dict(loop.seconds), loop.tables.counters(),
                   device and device.waited_seconds)

    def rates(self, since: "Progress") -> Dict[str, float]:
        """Speed and waiting since an earlier moment, by the names that the trackers see."""
        elapsed = max(self.clock - since.clock, 1e-9)
        rates = {"train/triples_per_second": (self.triples - since.triples) / elapsed,
                 "train/steps_per_second": (self.steps - since.steps) / elapsed,
                 "train/sample_wait_share": (self.seconds["sample"] - since.seconds["sample"]) / elapsed,
                 "train/stall_share": 0.0}
        if self.waited is not None:
            rates["train/device_wait_share"] = (self.waited - since.waited) / elapsed
        if self.store:
            store = self.store - since.store
            rates["train/stall_share"] = store.stall_seconds / elapsed
            rates.update({f"store/{name}": value for name, value in store.to_dict().items()})
        return rates


class Report:
    """Averages losses between log lines. `rank` is the number in front of each line; of a `joint` loss, which a
    positive and its negatives have between them, there are no averages apart. positives: the name of what is counted,
    TrainConfig.positives.

    On a terminal rank 0 has a bar as well; elsewhere only the lines, as from DGL-KE.
    """

    def __init__(self, loop: TrainingLoop, first_step: int, max_step: int, log_interval: int, tracker, rank: int = 0,
                 joint: bool = False, positives: str = "triples"):
        self._rate_unit = f"{positives}/s"
        self._loop, self._max_step, self._interval = loop, max_step, log_interval
        self._tracker, self._rank, self._joint = tracker, rank, joint
        self._bar = (
            progress(max_step, "training", "steps", initial=first_step) if rank == 0 and shows_bars() else None)
        self._pauses = 0.0
        self._start = self._shown = self._now()
        self.losses: Dict[str, float] = {}
        self._start_interval(self._start)

    def _now(self) -> Progress:
        return Progress.of(self._loop, self._pauses)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time in here counts as no training time: validations and checkpoints."""
        began = time.perf_counter()
        yield
        self._pauses += time.perf_counter() - began

    def _start_interval(self, now: Progress):
        self._logged = now

    def step(self, done: int) -> bool:
        """Step number `done` (counted from 1) has run. Returns whether it was one after which losses are reported."""
        if self._bar is not None:
            self._move_bar()
        if done % self._interval:
            return False
        self._log(done)
        return True

    def _move_bar(self):
        self._bar.update(1)
        if time.perf_counter() - self._pauses - self._shown.clock < BAR_SECONDS:
            return
        now = self._now()
        rates = now.rates(self._shown)
        shown = {"loss": f"{self.losses['loss']:.4f}"} if self.losses else {}
        shown[self._rate_unit] = f"{rates['train/triples_per_second']:,.0f}"
        if now.store:
            shown["hits"] = f"{rates['store/hit_share']:.1%}"
        shown["stall"] = f"{rates['train/stall_share']:.1%}"
        self._bar.set_postfix(shown, refresh=False)
        self._shown = now

    def _log(self, done):
        losses, now = self._loop.step.take_losses(), self._now()  # in this order: a device is waited for
        steps = now.steps - self._logged.steps
        self.losses = {**({} if self._joint else {"pos_loss": losses.positive, "neg_loss": losses.negative}),
                       "loss": losses.total - losses.regularization, "regularization": losses.regularization,
                       **({"relation_loss": losses.relation} if losses.relation else {})}
        for name, mean in self.losses.items():
            self._write(f"[proc {self._rank}][Train]({done}/{self._max_step}) average {name}: {short(mean)}")
        self._write(f"[proc {self._rank}][Train] {steps} steps take {now.clock - self._logged.clock:.3f} seconds")
        spent = {name: now.seconds[name] - self._logged.seconds[name] for name in now.seconds}
        self._write(f"[proc {self._rank}]" + ", ".join(f"{name}: {value:.3f}" for name, value in spent.items()))
        rates = now.rates(self._logged)
        if self._bar is None and self._rank == 0:  # a bar says this itself
            left = (self._max_step - done) / rates["train/steps_per_second"]
            self._write(f"[proc {self._rank}]{rates['train/triples_per_second']:,.0f} {self._rate_unit}, "
                        f"{time_left(left)} left")
        if now.store:
            self._write(f"[proc {self._rank}]" + _store_line(now.store - self._logged.store,
                                                             rates["train/stall_share"]))
        self._tracker.log({**{f"train/{name}": mean for name, mean in self.losses.items()}, **rates}, done)
        self._start_interval(now)

    def _write(self, line):
        if self._bar is not None:
            self._bar.write(line)
        else:
            log(line)

    def close(self, done: int) -> None:
        """The training is over after `done` steps: print what was not printed yet."""
        if self._now().steps > self._logged.steps:
            with contextlib.suppress(RuntimeError):  # of a device that has failed, with the losses on it
                self._log(done)
        if self._bar is not None:
            self._bar.close()
        log(f"proc {self._rank} takes {self._now().clock + self._pauses - self._start.clock:.3f} seconds")

    def totals(self) -> Dict[str, object]:
        """The summary of the whole training of this process, without validations and checkpoints."""
        now = self._now()
        rates = now.rates(self._start)
        return {"steps": now.steps, "triples": now.triples, "seconds": now.clock - self._start.clock,
                "steps_per_second": rates["train/steps_per_second"],
                "triples_per_second": rates["train/triples_per_second"],
                "stall_share": rates["train/stall_share"], "losses": self.losses, "seconds_by_part": now.seconds,
                "store": now.store.to_dict() if now.store else None}


def _store_line(store: StoreCounters, stall_share: float) -> str:
    return (f"cache hits: {store.hits} of {store.hits + store.misses} rows ({store.hit_share:.1%}), read: "
            f"{store.bytes_read / 2**20:.1f} MiB, flushed: {store.bytes_flushed / 2**20:.1f} MiB, evicted: "
            f"{store.evictions} rows, stall: {stall_share:.2%} of the time, in {store.stalled_steps} steps")
