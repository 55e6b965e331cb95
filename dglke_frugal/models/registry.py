"""The models by name."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import os
import random
import re
import sys
import textwrap
import zlib
from typing import Iterator, Optional, Sequence

from ..errors import InputError, first_line
from .built_in import MODELS
from .model import Model
from .torch_model import TorchModel

_OWN_NAME = re.compile(r"(\w[\w.]*):(\w+)(?:\(([^/\0\n]*)\))?")


def model_names() -> list[str]:
    """The names of the built-in models, aliases included."""
    return [name for model in MODELS for name in (model.name, *model.aliases)]


def built_in_model(name: str) -> Optional[Model]:
    """The package's model of that name or alias, None if it has none."""
    return next((model for model in MODELS if name in (model.name, *model.aliases)), None)


def is_custom(name: str) -> bool:
    """Whether scores are a function in torch: a custom one, MODULE:CLASS, or a TorchModel of the package."""
    return ":" in name or isinstance(built_in_model(name), TorchModel)


def find_model(name: str, seed: int = 0) -> Model:
    """The model of that name, or a new custom TorchModel if the name is MODULE:CLASS or
    MODULE:CLASS(ARGUMENTS), whose arguments are numbers, strings and the like.

    seed: of the random numbers that its class draws. Numbers that it draws and does not keep in a state
        (custom_state.py) must be the same wherever the model is made, so seeds other than 0 are for start values of the
        state alone.

    MODULE is imported as Python does, also from the current folder. Raises InputError if there is no such model.
    """
    model = built_in_model(name)
    if isinstance(model, TorchModel):  # which may have a state
        with random_numbers(seed):
            return type(model)()
    if model is not None:
        return model
    if ":" in name:
        return _import_model(name, seed)
    raise InputError(f"there is no model '{name}'; --model_name takes one of "
                     f"{', '.join(model_names())}, or MODULE:CLASS for a custom one")


def code_checksum(name: str) -> Optional[str]:
    """CRC-32 of the code of a custom model, MODULE:CLASS, without comments and docstrings: its class and the
    classes that it derives from. None for other models, and where there is no source. Raises InputError as find_model
    does."""
    if ":" not in name:
        return None
    own = [each for each in type(find_model(name)).__mro__
           if issubclass(each, TorchModel) and not each.__module__.startswith(f"{__package__}.")]
    try:
        trees = [ast.parse(textwrap.dedent(inspect.getsource(each))) for each in own]
    except (OSError, TypeError, SyntaxError):
        return None
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return f"{zlib.crc32(''.join(map(ast.unparse, trees)).encode()):08x}"


def _arguments(name: str, text: str):
    """Positional and keyword arguments of a call with literals, which is read and not run."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("brackets do not match")
        positional = [ast.literal_eval(value) for value in call.args]
        return positional, {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"cannot read the arguments of the model '{name}' ({error}); write numbers, strings, True, "
                         "False, None, or lists of them") from error


def _import_model(name: str, seed: int) -> TorchModel:
    parts = _OWN_NAME.fullmatch(name)
    if not parts:
        raise InputError(f"cannot load the model '{name}': give MODULE:CLASS, or MODULE:CLASS(size=3) with arguments, "
                         "without a slash, for files are named after it")
    module_name, class_name, text = parts.groups()
    positional, keywords = _arguments(name, text or "")
    sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # whatever the module runs into
        what = "" if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: "
        raise InputError(f"cannot load the model '{name}': {what}{first_line(error)}; give MODULE:CLASS of a class "
                         "that can be imported") from error
    finally:
        sys.path.pop()
    if not (isinstance(found, type) and issubclass(found, TorchModel)):
        raise InputError(f"'{name}' is no subclass of dglke_frugal.models.TorchModel; derive your model from it")
    try:
        with random_numbers(seed):
            model = found(*positional, **keywords)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"cannot make the model '{name}': {type(error).__name__}: {first_line(error)}; correct its "
                         "arguments, or its __init__") from error
    if getattr(model.score, "__func__", None) is TorchModel.score:
        raise InputError(f"the model '{name}' has no score(self, head, relation, tail); define it")
    model.name = name
    return model


@contextlib.contextmanager
def random_numbers(seed: int, gpus: Sequence[int] = ()) -> Iterator[None]:
    """Within it those of Python, NumPy and torch, on the CPU and on these GPUs, are of this seed; the caller's are as
    they were afterwards."""
    # A class that needs one of the two has imported it.
    numpy, torch = (sys.modules.get(name) for name in ("numpy", "torch"))
    pythons, numpys = random.getstate(), numpy and numpy.random.get_state()
    with torch.random.fork_rng(devices=gpus) if torch else contextlib.nullcontext():
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % 2**32)
        if torch:
            for generator in (torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in gpus)):
                generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(pythons)
            if numpy:
                numpy.random.set_state(numpys)
