"""Flags from a YAML file, with the same names: one mapping, no nesting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from ..errors import InputError
from ..nearest import or_nearest

ON_BY_DEFAULT = ("deterministic", "cuda_graphs")


def arguments_from(path, names) -> list[str]:
    """The flags of a YAML file as command-line arguments, so that they are checked as those are.

    names: what may stand in the file. Raises InputError for a file that cannot be read and for unknown keys.
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give a YAML file of flags") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{where} is not YAML; write one 'flag: value' per line") from error
    if content is None:
        return []
    if not isinstance(content, Mapping):
        raise InputError(f"{path} must hold one 'flag: value' per line")
    arguments = []
    for key, value in content.items():
        if key not in names:
            raise InputError(f"{path}: there is no flag '{key}'{or_nearest(key, names)}")
        arguments += arguments_of(path, key, value)
    return arguments


def arguments_of(path, key: str, value: Any) -> list[str]:
    """A flag and its value as command-line arguments. path: the file or the call that gave it."""
    if value is False and key in ON_BY_DEFAULT:
        return [f"--{key}=off"]
    if value is None or value is False or value == []:
        return []
    if value is True:
        return [f"--{key}"]
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, (Mapping, list)) for item in values):
        raise InputError(f"{path}: '{key}' must be a value or a list of values")
    return [f"--{key}", *(str(item) for item in values)] if isinstance(value, list) else [f"--{key}={value}"]
