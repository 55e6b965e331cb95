"""`dglke_frugal.train(...)`: what dglke_train does, with its flags as keywords, and the run as the answer."""
from __future__ import annotations

import contextlib
import io
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from .arguments import plain
from .errors import InputError, shown
from .presets.auto import PREFIX
from .removed_flags import instead_of_flag

if TYPE_CHECKING:
    from .inference.run import Run

_CALL = "train()"  # where a value was given, in sentences


def train(resume: Optional[os.PathLike] = None, config: Optional[os.PathLike] = None,
          preset: Optional[str] = PREFIX, **flags: Any) -> Run:
    """Train embeddings, or go on with a run; returns the run as `dglke_frugal.load` does.

        run = dglke_frugal.train(dataset="FB15k", model_name="ComplEx", hidden_dim=400, max_step=20000, test=True)
        run = dglke_frugal.train(resume=run.folder, max_step=40000)

    Args:
        resume: folder of a run to go on with; then flags that were given to it need not be repeated.
        config: YAML file of flags; those of the call override them.
        preset: name of a recipe that comes with the package (`dglke_frugal presets`), likewise; "auto", the default
            without `resume` and `config`, chooses flags by the size of the graph (docs/your-graph.md), for ComplEx if
            no model is named; None gives DGL-KE's defaults.
        flags: the flags of `dglke_train --help` by their full names (`neg_adversarial_sampling`, not `adv`), with their
            defaults. Switches are True or False; a flag of several values takes a list, a tuple or an array; numbers
            may be those of NumPy or torch, and paths path objects. `model_name` may be a class derived from
            models.TorchModel as well.

    Raises:
        InputError: an unknown flag, a value that cannot be used, or whatever `dglke_train` refuses.
        KeyboardInterrupt: Ctrl-C; a checkpoint has been written, from which `resume` goes on.
    """
    from .config import TrainConfig
    from .cli.train import configuration, reports, say_unused_flags
    from .inference.run import Run as LoadedRun
    from .training.trainer import train as carry_out

    defaults = TrainConfig().to_flags()
    if preset == PREFIX and (resume is not None or config is not None):
        preset = None
    arguments = []
    for name, value in {"config": config, "preset": preset, "resume": resume, **flags}.items():
        if name not in {*defaults, "config", "preset", "resume"}:
            raise InputError(f"train() has no flag '{name}'{instead_of_flag(name, defaults)}")
        arguments += _arguments(name, value, defaults.get(name))
    own, configured = _as_input_error(configuration, arguments)
    if configured.run.no_save_emb:
        raise InputError("train() returns the run with its embeddings; give no_save_emb=False")
    say_unused_flags(own, configured)
    try:
        folder = carry_out(configured, Path(own.resume) if own.resume else None, trackers=reports(own.report))
    except SystemExit as stopped:
        if stopped.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt from stopped
        raise
    return LoadedRun.load(folder)


def _arguments(name: str, value: Any, default: Any) -> list[str]:
    from .cli.config_file import arguments_of

    if name == "model_name" and isinstance(value, type):
        value = f"{value.__module__}:{value.__qualname__}"
    value = plain(value)
    if any(isinstance(each, bytes) for each in (value if isinstance(value, list) else [value])):
        raise InputError(f"{_CALL}: '{name}' is {shown(repr(value))}; give text rather than bytes")
    return arguments_of(_CALL, name, value, default)


def _as_input_error(parse, arguments):
    """parse(arguments), with what argparse would say and exit for as an InputError."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse(arguments)
    except SystemExit as stopped:
        sentence = said.getvalue().strip().removeprefix("dglke_train: ") or f"the flags are wrong ({stopped.code})"
        raise InputError(f"train(): {sentence.replace('; see --help', '')}") from None
