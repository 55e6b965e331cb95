"""Runs a search: a number of trials at a time, each pruned at its validations, until there have been enough."""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from ..arguments import integer, path, switch
from ..divergence import Diverged
from ..errors import InputError, shortage, shown
from ..options import TrainConfig
from ..training.checkpoint.lock import held
from ..training.run.interrupt import Interrupt
from .results import check_results, write_results
from .space import Space, listed, plain
from .study import JOURNAL, Study, Tried
from .trial_process import TrialProcess

POLL_SECONDS = 0.2
MOST_FAILURES = 3  # without any trial that did not fail
LEAST_FREE_BYTES = 1 << 20  # on the disk: with less a trial fails for want of it


@dataclass(frozen=True)
class SearchConfig:
    """The settings of a search, without its space.

    Attributes:
        out: folder of the search.
        trials: how many, those of earlier parts of the search included.
        parallel: how many at a time.
        seconds: after which no trial is started; None for no limit.
        prune: whether a trial ends when it is worse than the median of the others at the same validation.
        seed: of the search, and of each trial.
        metric: of a validation, by its name in metrics.jsonl, by which trials are compared; a larger one is better.
        sampler: what chooses after the first trials: "tpe", "gp" or "random".
        arguments: further flags of dglke_train for all trials: where the data are, and what computes.
        threads: of the CPU, of each trial; None for its share of the cores. OMP_NUM_THREADS goes before it.
        identity: what the numbers of trials depend on besides space and seed, as JSON: `data` by their fingerprint, and
            `numbers`, the flags of trials that change numbers. A search goes on only where all of it is the same.

    Raises InputError for values that cannot be used.
    """

    out: Path
    trials: int = 20
    parallel: int = 1
    seconds: Optional[float] = None
    prune: bool = True
    seed: int = 0
    arguments: List[str] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=dict)
    metric: str = "MRR"
    sampler: str = "tpe"
    threads: Optional[int] = None

    def __post_init__(self):
        object.__setattr__(self, "out", path("--out", self.out))
        for name, message, least, most in (("trials", "--trials", 1, 2**63 - 1),
                                           ("parallel", "--parallel", 1, 2**63 - 1),
                                        ("seed", "--search_seed", 0, 2**32 - 1)):
            object.__setattr__(self, name, integer(message, getattr(self, name), least, most))
        switch("prune", self.prune)
        seconds = self.seconds
        if seconds is not None and not (isinstance(seconds, (int, float, np.number)) and 0 < seconds < math.inf):
            raise InputError(f"--seconds is {shown(seconds, repr)}; give a number above 0")
        if isinstance(self.arguments, str):
            raise InputError(f"arguments of a search are {shown(self.arguments, repr)}; give a list of words")


def trial_flags(space: Space, params: Mapping[str, Any], seed: int) -> Dict[str, Any]:
    """The flags of a trial by its parameters: five validations where the space does not say how many, and no test."""
    flags = {"seed": seed, **space.flags_of(params), "valid": True, "test": False}
    flags.setdefault("eval_interval", max(1, int(flags.get("max_step") or TrainConfig().run.max_step) // 5))
    return plain(flags)


def run_search(config: SearchConfig, space: Space) -> Study:
    """Try until `config.trials` trials have ended; returns the study. Results are written after each.

    Raises InputError if the folder cannot be used, or trials do nothing but fail; KeyboardInterrupt and SystemExit,
    after the running trials were ended, which a further call repeats.
    """
    try:
        config.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {config.out}: {error.strerror}; choose a folder that can be written") from error
    taken = f"another process is searching in {config.out}; wait until it ends, or choose another --out"
    check_results(config.out)
    try:
        with held(config.out / "lock", taken):
            study = _open(config, space)
            if study.tried:
                print(f"{config.out} has {len(study.tried)} trials already", flush=True)
            with Interrupt("ending the trials that run") as interrupt:
                _Search(config, space, study, interrupt).carry_out()
            write_results(config.out, space, study, with_plots=True)
            _check_worth(study)
    except OSError as error:  # of the journal, which Optuna writes, or of a trial
        raise shortage(error) or InputError(
            f"cannot write {config.out}: {error.strerror}; free some space or make it writable, and give the same "
            "command again to go on with the search"
        ) from error
    return study


def _open(config: SearchConfig, space: Space) -> Study:
    """The study in the folder; a new one if all trials there have failed."""
    about = {"seed": config.seed, **config.identity}
    study = Study(config.out, space, about, config.seed, config.prune, config.metric, config.sampler)
    if not study.is_worthless:
        return study
    print(f"all trials in {config.out} have failed; starting anew", flush=True)
    (config.out / JOURNAL).unlink()
    return Study(config.out, space, about, config.seed, config.prune, config.metric, config.sampler)


def _check_worth(study: Study) -> None:
    """Raise InputError if all trials have failed."""
    if study.is_worthless:
        last = study.tried[max(study.tried)].failed
        raise InputError(f"all {len(study.tried)} trials failed, the last one so: {last}")


class _Search:
    def __init__(self, config: SearchConfig, space: Space, study: Study, interrupt: Interrupt):
        self._config, self._space, self._study, self._interrupt = config, space, study, interrupt
        self._running: Dict[int, tuple] = {}  # by number: the optuna.Trial, its process
        self._threads = config.threads or max(1, len(os.sched_getaffinity(0)) // config.parallel)

    def carry_out(self) -> None:
        config, began = self._config, time.monotonic()
        try:
            while True:
                in_time = config.seconds is None or time.monotonic() - began < config.seconds
                while (in_time and len(self._running) < config.parallel
                       and len(self._study.tried) + len(self._running) < config.trials):
                    self._start()
                if not self._running:
                    return
                time.sleep(POLL_SECONDS)
                self._end_if_asked()
                for number in list(self._running):
                    self._look_at(number)
        finally:
            if self._running:
                sys.stderr.write(f"trials that run are ended; the same command goes on with {config.out}\n")
            for _, process in self._running.values():  # all of them, even if the journal cannot be written
                process.stop()
            for trial, _ in self._running.values():
                self._study.interrupt(trial)

    def _end_if_asked(self) -> None:
        # Here, not where the signal comes: in the middle of a write to the journal an exception would leave optuna's
        # lock behind, for which the next write waits half a minute.
        if not self._interrupt:
            return
        by_hand = self._interrupt.signal == signal.SIGINT
        raise KeyboardInterrupt if by_hand else SystemExit(self._interrupt.exit_code)

    def _start(self) -> None:
        config = self._config
        trial = self._study.ask()
        flags = trial_flags(self._space, trial.params, config.seed)
        folder = config.out / "trials" / str(trial.number)
        process = TrialProcess(folder, flags, config.arguments, self._threads, config.metric)
        self._running[trial.number] = trial, process

    def _look_at(self, number: int) -> None:
        trial, process = self._running[number]
        has_ended = process.has_ended  # before its last lines are read
        is_pruned, before = False, len(process.validations)
        new = process.new_validations()
        diverged = not all(math.isfinite(value) for _, value in new)
        for place, (_, value) in enumerate([] if diverged else new, before + 1):
            is_pruned |= self._study.report(trial, place, value)
        if not has_ended and not is_pruned and not diverged:
            return
        result = process.result() if has_ended else None
        seconds = process.seconds
        process.stop()
        state = "failed" if diverged else "complete" if result is not None else (
            "pruned" if is_pruned and not has_ended else "failed")
        failed = str(Diverged(f"the {self._config.metric} of a validation is not a number")) if diverged else (
            process.why_failed() if state == "failed" else None)
        if state == "failed" and shutil.disk_usage(self._config.out).free < LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        del self._running[number]
        self._log(self._study.end(trial, state, process.validations, seconds, failed))
        write_results(self._config.out, self._space, self._study)
        if len(self._study.tried) >= MOST_FAILURES:
            _check_worth(self._study)

    def _log(self, tried: Tried) -> None:
        best, ended = self._study.best, len(self._study.tried)
        message = (f"{tried.metric} {tried.value:.4f} at step {tried.step}" if tried.value is not None
                   else "no validation")
        if tried.state == "pruned":
            message += ", pruned"
        if tried.failed:
            message = f"failed: {tried.failed}"
        leads = f"; best {best.value:.4f} (trial {best.number})" if best else ""
        print(f"trial {tried.number} ({ended} of {self._config.trials}): {message} in {tried.seconds:.0f} s: "
              f"{', '.join(listed(tried.params))}{leads}", flush=True)
