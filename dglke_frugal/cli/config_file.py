"""Flags from a YAML file, with the same names: one mapping, no nesting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping, Tuple

from ..errors import InputError, shown
from ..options import OPTIONS
from ..removed_flags import instead_of_flag


def arguments_from(path, defaults: Mapping[str, Any]) -> list[str]:
    """The flags of a YAML file as command-line arguments, so that they are checked as those are.

    defaults: what may stand in the file; the kind of a default is that of the flag's values. Raises InputError, with
    file and line, for a file that cannot be read, keys that are unknown or stand there twice, and values of another
    kind.
    """
    arguments, lines = [], {}
    for line, key, value in _entries(path):
        where = f"{path}, line {line}"
        if not isinstance(key, str) or key not in defaults:
            raise InputError(f"{where}: there is no flag '{shown(key)}'{instead_of_flag(key, defaults)}")
        if key in lines:
            raise InputError(f"{where}: '{key}' stands on line {lines[key]}, too; remove one of them")
        lines[key] = line
        arguments += arguments_of(where, key, value, defaults[key])
    return arguments


def _entries(path) -> Iterator[Tuple[int, Any, Any]]:
    """(line from 1, key, value) of each entry of the file's mapping."""
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
        loader = yaml.SafeLoader(text)
        try:
            try:
                content = loader.get_single_node()
            except (ValueError, OverflowError) as error:  # an escape of a character that there is not
                raise InputError(
                    f"{path} line {loader.line + 1} is not YAML; write one 'flag: value' per line") from error
            if content is None:
                return
            if not isinstance(content, yaml.MappingNode):
                raise InputError(f"{path} must hold one 'flag: value' per line")
            line = None
            for key, value in content.value:
                line = key.start_mark.line + 1
                yield line, loader.construct_object(key, deep=True), _value_of(loader, value)
        finally:
            loader.dispose()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give a YAML file of flags") from error
    except RecursionError:
        raise InputError(f"{path} is nested too deeply; write one 'flag: value' per line") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{where} is not YAML; write one 'flag: value' per line") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; write one 'flag: value' per line") from error
    except ValueError as error:  # an integer of thousands of digits, or a date that there is not
        reason = str(error).partition("; use sys.")[0]
        raise InputError(f"{path}, line {line}: {reason}; give another value") from error
    except (LookupError, AttributeError, TypeError, OverflowError) as error:  # a !!tag that its text does not fit
        raise InputError(f"{path} line {line} is not YAML; write one 'flag: value' per line") from error


class _Number(str):
    """A number as it is written: YAML reads 0100 and 1:30, say, as other numbers than the command line does."""

    __repr__ = str.__str__


def _value_of(loader: Any, node: Any) -> Any:
    """Of a node of yaml, with numbers as their text."""
    if node.id == "sequence":
        return [_value_of(loader, item) for item in node.value]
    value = loader.construct_object(node, deep=True)
    return _Number(node.value) if type(value) in (int, float) else value


def arguments_of(where: str, key: str, value: Any, default: Any) -> list[str]:
    """A flag and its value as command-line arguments. where: what gave it, for the sentence of an InputError."""
    takes_list = key in OPTIONS and OPTIONS[key].many
    if value is None or takes_list and value == []:
        return []
    if default is False and not isinstance(value, bool):
        raise InputError(f"{where}: '{key}' is {_named(value)}; write true or false, without quotes")
    if isinstance(default, bool) and not isinstance(value, list):
        return [f"--{key}={value}"]
    if isinstance(value, list) and not takes_list:
        raise InputError(f"{where}: '{key}' is {_named(value)}; it takes one value, so write it without brackets")
    values = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, (Mapping, list, set, bool)) or item is None:
            kind = "must be a value or a list of values" if takes_list else "must be a value"
            raise InputError(
                f"{where}: '{key}' is {_named(item)}; it {kind} (text that looks like another kind needs quotes)")
        if isinstance(item, str) and "\0" in item:
            raise InputError(f"{where}: '{key}' has a NUL character; remove it")
    return [f"--{key}", *map(str, values)] if isinstance(value, list) else [f"--{key}={value}"]


def _named(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else shown(value, repr)
