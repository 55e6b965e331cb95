"""`dglke_frugal.train(...)`: what dglke_train does, with its flags as keywords, and the run as the answer."""
from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .arguments import is_single, path as as_path, plain, switch
from .errors import InputError, shortages_as_input_errors, shown
from .flag_values import AUTO, file_path
from .presets.auto import PREFIX
from .removed_flags import instead_of_flag

if TYPE_CHECKING:
    from .data import KnowledgeGraph
    from .inference.run import Run
    from .option import Option
    from .options import TrainConfig

log = logging.getLogger("dglke_frugal.train")
_CALL = "train()"  # where a value was given, in sentences
_OF_DATA = ("data_path", "format", "data_files")
_OF_LINES = ("delimiter", "has_edge_importance")


@shortages_as_input_errors()
def train(triples: Any = None, *, valid: Any = None, test: Any = None, split: Optional[Sequence[float]] = None,
          resume: Optional[Union[str, os.PathLike[str]]] = None,
          config: Optional[Union[str, os.PathLike[str]]] = None, preset: Optional[str] = PREFIX,
          verbose: bool = False, callbacks: Sequence[Callable[..., Optional[bool]]] = (), **flags: Any) -> Run:
    """Train embeddings, or go on with a run; returns the run as `dglke_frugal.load` does.

        run = dglke_frugal.train(frame, split=(.9, .05, .05), model_name="ComplEx", hidden_dim=64, max_epoch=50)
        run = dglke_frugal.train(dataset="FB15k", model_name="ComplEx", hidden_dim=400, max_step=20000, test=True)
        run = dglke_frugal.train(resume=run.folder, max_step=40000)

    Shows a bar where there is a terminal or a notebook, and prints one line at the end. All that dglke_train says goes
    to the logger "dglke_frugal.train".

    Args:
        triples: what to train on, instead of flags that name a data set: a table with the columns head, relation and
            tail (a pandas DataFrame), an array (n, 3), a list of triples, or a tuple (heads, relations, tails), of
            names or of ids; or the path of a file of triples (.txt, .tsv, .csv, .parquet), or of a folder with files
            train, and perhaps valid and test. Integers are ids: numbers of rows. What is in no file is written into
            `save_path`/data, from where other processes read it.
        valid, test: triples likewise, which are then ranked; or True to rank those of the data set, False for not.
        split: shares of train, valid and test by which `triples` is divided, such as (.9, .05, .05).
        resume: folder of a run to go on with; then flags that were given to it need not be repeated. "auto": the newest
            run of this model and data set in `save_path`, or a new one.
        config: YAML file of flags; those of the call override them.
        preset: name of a recipe that comes with the package (`dglke_frugal presets`), likewise; "auto", the default
            without `resume` and `config`, chooses flags by the size of the graph (docs/your-graph.md), for ComplEx if
            no model is named; None gives DGL-KE's defaults.
        verbose: print what dglke_train prints.
        callbacks: functions that are called after each validation with a `Validation`; the training stops after it if
            one returns True.
        flags: the flags of `dglke_train --help` by their full names (`neg_adversarial_sampling`, not `adv`), with their
            defaults. Switches are True or False; a flag of several values takes a list, a tuple or an array; numbers
            may be those of NumPy or torch, and paths path objects. `model_name` may be a class derived from
            models.TorchModel as well.

    Raises:
        InputError: an unknown flag, a value that cannot be used, triples that are none, or whatever `dglke_train`
            refuses.
        KeyboardInterrupt: Ctrl-C; a checkpoint has been written, from which `resume` goes on.
    """
    from .cli.train import reports, log_unused_flags
    from .inference.run import Run as LoadedRun
    from .training.log.tracker import CallbackTracker
    from .training.train import train as carry_out

    verbose = switch("verbose", verbose)
    output = sys.stdout.before if isinstance(sys.stdout, _Log) else sys.stdout
    every = _checked(callbacks)
    called = partial(CallbackTracker, callbacks=every, around=partial(_lines_go, _PRINTED))
    configure = partial(_configured, with_callbacks=bool(every))
    if preset == PREFIX and (resume is not None or config is not None):
        preset = None
    flags = {"config": config, "preset": preset, "resume": resume, **flags}
    if triples is not None:
        _refuse_other_data(flags)
    quiet = partial(_lines_go, _PRINTED) if verbose else _quiet
    with quiet():
        own, configured = configure({**flags, **_data_flags(triples, valid, test, split, flags, configure)})
    log_unused_flags(own, configured)
    try:
        with quiet():
            folder = carry_out(configured, own.resume if own.resume in (None, AUTO) else Path(own.resume),
                               trackers=[*reports(own.report), called], graph=own.graph)
    except SystemExit as stopped:
        if stopped.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt from stopped
        raise
    run = LoadedRun.load(folder)
    if not verbose:
        print(run.summary(), file=output)
    return run


def _configured(flags: Dict[str, Any], graph: Optional[KnowledgeGraph] = None, *,
                with_callbacks: bool) -> Tuple[Any, TrainConfig]:
    """The configuration that cli.train makes of flags. InputError for flags that cannot be used, and for a run with
    callbacks that would never be called."""
    from .cli.train import configuration
    from .options import why_no_validations
    from .training.run.epochs import in_steps
    from .training.run.session import load

    declared, arguments = _defaults(), []
    for name, value in flags.items():
        if name not in {*declared, "config", "preset", "resume"}:
            raise InputError(f"train() has no flag '{name}'{instead_of_flag(name, declared)}")
        arguments += _arguments(name, value, declared.get(name))
    own, configured = _as_input_error(partial(configuration, graph=graph), arguments)
    if configured.run.no_save_emb:
        raise InputError("train() returns the run with its embeddings; give no_save_emb=False")
    why = why_no_validations(configured)
    counts_epochs = with_callbacks and not why and configured.counts_epochs
    if own.graph is not None or counts_epochs:
        own.graph = load(configured, own.graph)  # which refuses a graph without the triples that a preset ranks
    if counts_epochs:
        why = why_no_validations(in_steps(configured, len(own.graph.train), own.graph))
    if with_callbacks and why:
        why = "give valid=... or split=..., or valid=True with a data set" if not configured.evaluation.valid else why
        raise InputError(f"train(): callbacks are called after validations, and there are none: {why}")
    return own, configured


def _defaults() -> Dict[str, Any]:
    from .options import TrainConfig

    return TrainConfig().to_flags()


def _refuse_other_data(flags: Dict[str, Any]) -> None:
    refused = [name for name in (*_OF_DATA, "resume") if flags.get(name) is not None]
    if refused:
        raise InputError(f"train(): triples are given, and {refused[0]} names other ones; leave one of the two out")


def _data_flags(triples: Any, valid: Any, test: Any, split: Any, flags: Dict[str, Any],
                configure: Callable[..., object]) -> Dict[str, Any]:
    """The flags that say which data to train on, and whether to rank valid and test. configure(flags, graph) refuses
    flags that do not go with the graph, before its files are written."""
    held_out = {"valid": valid, "test": test}
    switches = {name: plain(value) for name, value in held_out.items()
                if value is None or is_single(value) and isinstance(plain(value), bool)}
    given = {name: value for name, value in held_out.items() if name not in switches}
    if triples is None:
        if given or split is not None:
            if not given:
                raise InputError("train(): split divides triples; give triples=...")
            name = next(iter(given))
            raise InputError(f"train(): {name} goes with triples; give triples=..., or {name}=True to rank those of "
                             "the data set")
        return switches
    from .data.given_triples import flags_of_triples

    if given or split is not None or not isinstance(triples, (str, os.PathLike)):
        for name in _OF_LINES:
            if plain(flags.get(name)) not in (None, _defaults()[name]):
                raise InputError(f"train(): {name} is of files that are trained on as they are; leave it out, or give "
                                 "triples=... alone, as the path of a file or folder")

    def with_switches(found: Dict[str, Any]) -> Dict[str, Any]:
        there = [name for name in held_out if any(Path(file).name.startswith(name) for file in found["data_files"])]
        for name in switches:
            if switches[name] and name not in there:
                raise InputError(f"train(): {name}=True ranks triples that are not given; give {name}=... or "
                                 "split=...")
        return {**found, **switches, **{name: True for name in there if switches.get(name) is None}}

    def check(found: Dict[str, Any], graph: KnowledgeGraph) -> None:
        with _quiet(), _lines_go(_DROPPED):  # which the run itself prints
            configure({**flags, **with_switches(found)}, graph)

    save_path = as_path("save_path", flags.get("save_path") or _defaults()["save_path"])
    dataset = flags.get("dataset")
    return with_switches(flags_of_triples(
        triples, **{"valid": None, "test": None, **given}, split=split, folder=save_path,
        dataset=None if dataset is None else str(dataset), check=check))


def _checked(callbacks: Any) -> List[Callable[..., Optional[bool]]]:
    every = [callbacks] if callable(callbacks) or is_single(callbacks) else list(callbacks)
    wrong = [each for each in every if not callable(each)]
    if wrong:
        raise InputError(f"train(): a callback is {shown(wrong[0], repr)}; give functions that take a Validation")
    return every


_LOGGED, _PRINTED, _DROPPED = range(3)  # where lines of a thread go that trains without verbose
_of_thread = threading.local()
_lock = threading.Lock()  # held where sys.stdout, which all threads share, takes another value


class _Log(io.TextIOBase):
    """Standard output whose lines go to the logger, but for those of threads that are in `_lines_go`.

    Attributes:
        before: the standard output in whose place it is.
        calls: of train(), in threads of this process, that want it.
    """

    def __init__(self, before: Any) -> None:
        self.before, self.calls, self._begun = before, 0, ""

    def write(self, text: str) -> int:
        where = getattr(_of_thread, "where", _LOGGED)
        if where == _PRINTED and self.before is not None:  # as where the process has been started without
            return self.before.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines if where == _LOGGED else ():
            log.info("%s", line)
        return len(text)

    def flush(self) -> None:
        if self.before is not None:
            self.before.flush()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """While entered, standard output is a _Log, for all threads that have entered at the same time."""
    with _lock:
        if not isinstance(sys.stdout, _Log):
            sys.stdout = _Log(sys.stdout)
        replaced = sys.stdout
        replaced.calls += 1
    try:
        with _lines_go(_LOGGED):
            yield
    finally:
        with _lock:
            replaced.calls -= 1
            if not replaced.calls and sys.stdout is replaced:
                sys.stdout = replaced.before


@contextlib.contextmanager
def _lines_go(where: int) -> Iterator[None]:
    outer = getattr(_of_thread, "where", _LOGGED)
    _of_thread.where = where
    try:
        yield
    finally:
        _of_thread.where = outer


def _arguments(name: str, value: Any, default: Any) -> list[str]:
    from .cli.config_file import arguments_of

    if name == "model_name" and isinstance(value, type):
        value = _name_of_model(value)
    value = plain(value)
    if any(isinstance(each, bytes) for each in (value if isinstance(value, list) else [value])):
        raise InputError(f"{_CALL}: '{name}' is {shown(value, repr)}; give text rather than bytes")
    if default is False and value is not None:
        switch(f"{_CALL}: '{name}'", value)  # in Python's words
    return arguments_of(_CALL, name, value, default)


def _name_of_model(model: type) -> str:
    """By which training and other processes find the class. InputError for one that is not found there."""
    found: Any = sys.modules.get(model.__module__)
    for part in model.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not model:
        raise InputError(f"{_CALL}: 'model_name' is the class {model.__qualname__}, which {model.__module__} does not "
                         "have under this name; define it outside of functions, and give the one defined last")
    return f"{model.__module__}:{model.__qualname__}"


def _as_input_error(parse, arguments):
    """parse(arguments), with what argparse would say and exit for as an InputError."""
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            return parse(arguments)
    except SystemExit as stopped:
        sentence = message.getvalue().strip().removeprefix("dglke_train: ") or f"the flags are wrong ({stopped.code})"
        raise InputError(f"train(): {sentence.replace('; see --help', '')}") from None


def keywords() -> List[inspect.Parameter]:
    """The keywords of train() with their types, as source text, and defaults: its own, and one for each flag of
    dglke_train, whose None stands for the flag's default."""
    from .options import OPTIONS

    own = [each for each in inspect.signature(train).parameters.values() if each.kind is not each.VAR_KEYWORD]
    taken = {each.name for each in own}
    return own + [inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None,
                                    annotation=f"Optional[{_type_of(each)}]")
                  for each in OPTIONS.values() if each.name not in taken]


def _type_of(each: Option) -> str:
    if each.name == "model_name":
        return "Union[str, type]"
    if each.choices and not each.many:
        one = f"Literal[{', '.join(map(repr, each.choices))}]"
    elif each.parse is file_path:
        one = "Union[str, os.PathLike[str]]"
    else:
        one = each.parse.__name__ if each.many else each.annotation.removeprefix("Optional[").removesuffix(
            "]" if each.annotation.startswith("Optional[") else "")
    return f"Union[{one}, Sequence[{one}]]" if each.many else one


train.__signature__ = inspect.Signature(keywords())  # type: ignore[attr-defined]  # for completion and help()
