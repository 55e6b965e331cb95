"""The trials so far and the choice of the next ones: an Optuna study in a journal, which a killed search goes on
with."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..data.fingerprint import Fingerprint
from ..errors import InputError, shown
from ..extras import install_command
from .plots import optuna_plots
from .space import Space

JOURNAL = "journal.log"
IDENTITY = "identity"  # what the study says of the search
STARTUP_TRIALS = 10  # at random, before the sampler has something to learn from
UNPRUNED_TRIALS = 4  # before the median is one


@dataclass(frozen=True)
class Tried:
    """A trial that has ended.

    Attributes:
        state: "complete", "pruned" or "failed".
        params: what the search chose.
        value: of the search's metric in its best validation; None if it had none.
        step: of that validation.
        validations: (step, value) of all.
        failed: the sentence with which it ended, None if it did not fail.
        metric: the search's.
    """

    number: int
    state: str
    params: Dict[str, Any]
    value: Optional[float]
    step: Optional[int]
    validations: List[Tuple[int, float]]
    seconds: float
    failed: Optional[str] = None
    metric: str = "MRR"

    def to_dict(self) -> Dict[str, Any]:
        """As results.json has it."""
        return {"number": self.number, "state": self.state, self.metric: self.value, "step": self.step,
                "params": self.params, "seconds": round(self.seconds, 1),
                "validations": [list(each) for each in self.validations], "failed": self.failed}


def import_optuna():
    """The library. Raises InputError if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"a search needs Optuna, which is not installed: {install_command('search')}") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """The trials of one search in a folder. One process at a time may have it.

    Attributes:
        tried: the trials that have ended, by number.
    """

    def __init__(self, folder: Path, space: Space, about: Dict[str, Any], seed: int, prune: bool = True,
                 metric: str = "MRR", sampler: str = "tpe"):
        """about: what else the numbers depend on. metric, sampler: see SearchConfig. Raises InputError if the folder
        has another search, or the sampler needs what is not installed."""
        optuna = self._optuna = import_optuna()
        self.metric = metric
        self._space = space
        with contextlib.suppress(FileNotFoundError):  # of a search that was killed while it wrote a line
            os.unlink(folder / f"{JOURNAL}.lock")
        _drop_cut_line(folder / JOURNAL)
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL)))
        is_new = not storage.get_all_studies()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study = optuna.create_study(storage=storage, study_name="search", direction="maximize",
                                              load_if_exists=True, sampler=None)
            # Another seed for each part: the first trials are drawn at random, and must not be drawn again.
            self._study.sampler = _sampler(sampler, seed + len(self._study.get_trials(deepcopy=False)),
                                           bool(space.variants))
        self._study.pruner = (optuna.pruners.MedianPruner(UNPRUNED_TRIALS, n_warmup_steps=2) if prune
                              else optuna.pruners.NopPruner())
        self.tried: Dict[int, Tried] = {}
        for trial in self._study.get_trials(deepcopy=False):
            if "state" in trial.user_attrs:  # or it was interrupted
                self.tried[trial.number] = self._as_tried(trial)
        identity = json.loads(json.dumps({"space": space.source, **about}, default=str))
        if is_new:
            for point in space.start:
                self._study.enqueue_trial(dict(point))
            self._study.set_user_attr(IDENTITY, identity)  # last: a search that has it has all
        elif not self.is_worthless:
            _check(folder, identity, self._study.user_attrs.get(IDENTITY, {}))
            self._repeat_interrupted()

    @property
    def is_worthless(self) -> bool:
        """Whether there are trials, and all have failed, as where the data were not to be found."""
        return bool(self.tried) and all(each.failed for each in self.tried.values())

    def _repeat_interrupted(self) -> None:
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(states=(states.RUNNING,)):
            self._repeat(trial.number, trial.params)

    def _repeat(self, number: int, params: Dict[str, Any]) -> None:
        self._study.tell(number, state=self._optuna.trial.TrialState.FAIL)
        self._study.enqueue_trial(dict(params))

    def ask(self):
        """A new trial, whose `params` the search has chosen."""
        trial = self._study.ask()
        self._space.suggest(trial)
        return trial

    def report(self, trial, number: int, value: float) -> bool:
        """Use a trial's validation, its number-th from 1; returns whether the trial is not worth going on with."""
        trial.report(value, number)
        return bool(trial.should_prune())

    def end(self, trial, state: str, validations: List[Tuple[int, float]], seconds: float,
            failed: Optional[str] = None) -> Tried:
        """Record how a trial has ended; state as in Tried. A failed one counts as the worst, so that it is not tried
        again."""
        states = self._optuna.trial.TrialState
        for name, value in (("validations", validations), ("seconds", seconds), ("failed", failed)):
            trial.set_user_attr(name, value)
        trial.set_user_attr("state", state)  # last: a trial that has it has all
        if state == "pruned":
            self._study.tell(trial, state=states.PRUNED)
        else:
            self._study.tell(trial, max((value for _, value in validations), default=0.0) if failed is None else 0.0)
        tried = self._as_tried(self._study.get_trials(deepcopy=False)[trial.number])
        self.tried[trial.number] = tried
        return tried

    def interrupt(self, trial) -> None:
        """The trial is given up; another search of the folder will run it."""
        self._repeat(trial.number, trial.params)

    def _as_tried(self, trial) -> Tried:
        known = trial.user_attrs
        validations = [tuple(each) for each in known.get("validations", [])]
        step, value = max(validations, key=lambda each: each[1], default=(None, None))
        return Tried(trial.number, known["state"], dict(trial.params), value, step, validations, known["seconds"],
                     known["failed"], self.metric)

    def plots(self) -> List[Tuple[str, str]]:
        """See plots.optuna_plots."""
        return optuna_plots(self._study, self.metric)

    @property
    def best(self) -> Optional[Tried]:
        """The trial with the best validation; None if there is none."""
        return max((each for each in self.tried.values() if each.value is not None and each.failed is None),
                   key=lambda each: each.value, default=None)


def _drop_cut_line(journal: Path) -> None:
    """Remove the last line of a journal if a kill or a full disk has cut it off: others would be written onto it.

    Raises InputError for other damage.
    """
    if not journal.exists():
        return
    lines = journal.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        os.truncate(journal, sum(map(len, lines[:-1])))
        lines.pop()
    has_identity = False
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or "op_code" not in record:
                raise ValueError("it is no record of Optuna's")
        except ValueError as error:
            raise InputError(f"{journal}, line {number} is damaged ({error}); give another --out, or remove "
                             f"{journal} to begin the search again") from error
        has_identity |= IDENTITY in record.get("user_attr", ())
    if not has_identity:  # of a search that was killed before it had begun
        os.unlink(journal)


def _sampler(name: str, seed: int, variants: bool):
    """Optuna's sampler of that name. Raises InputError if it needs what is not installed."""
    samplers = import_optuna().samplers
    if name == "random":
        return samplers.RandomSampler(seed)
    if name == "tpe":
        return samplers.TPESampler(seed=seed, multivariate=True, group=variants, constant_liar=True,
                                   n_startup_trials=STARTUP_TRIALS)
    try:
        import scipy  # noqa: F401 (which Optuna asks for as late as after the first trials)
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError(f"--sampler gp needs {error.name}, which is not installed: pip install {error.name}, or use "
                         "--sampler tpe") from error
    return samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)


def _check(folder: Path, now: Dict[str, Any], then: Dict[str, Any]) -> None:
    """Raise InputError, naming the difference, unless trials of both searches have the same numbers."""
    if now == then:
        return
    data = [Fingerprint.of_mapping(each.get("data")) for each in (now, then)]
    if now.get("data") != then.get("data"):
        raise InputError(f"{folder} has a search over other data: "
                         f"{data[0].difference(*data[1:]) or 'they have changed'}; give back the files that they "
                         "were, or another --out")
    chosen = [name for name in ("metric", "sampler", "init_from") if now.get(name) != then.get(name)]
    # Flags that are given, before what follows from them in trials.
    flags = zip(*([(each.get("space") or {}).get("flags") or {}, *each.get("numbers", ())] for each in (now, then)))
    changed = next(filter(None, (chosen, *([name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
                                           for one, other in flags))), [])
    changed = [f"--{'search_seed' if name == 'seed' else name}" for name in changed]
    message = f" ({shown(', '.join(changed))})" if changed else ""
    raise InputError(f"{folder} has a search of another space, or with other flags{message}; give those, or another "
                     "--out")
