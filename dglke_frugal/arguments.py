"""Arguments of the Python interface: numbers, switches, folders, ids and triples, each read in one place."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .data.column_names import COLUMN_NAMES
from .data.graph import Triples
from .errors import InputError, first_line, shown
from .flag_values import file_path

Columns = Tuple[np.ndarray, np.ndarray, np.ndarray]
_FORMS = ("triples are rows (head, relation, tail), as an array of shape (n, 3) or a list, or a tuple of three columns "
          "(heads, relations, tails)")
_NAMES = (*COLUMN_NAMES, (0, 1, 2))  # of the columns of a table, or the keys of a mapping


def plain(value: Any) -> Any:
    """A value of NumPy, torch or pandas, or a path, as Python's own; whatever holds several in an order is a list.

    Sets stay sets, so that who needs an order can refuse them.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str):
        return str(value)  # of NumPy's str as well
    if hasattr(value, "tolist") and not isinstance(value, type):
        try:
            value = value.tolist()
        except RuntimeError:  # of a tensor on the device "meta", and of a sparse one
            return value
    if isinstance(value, np.floating):  # of more bits than Python's have
        return float(value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Set, type)):
        return [plain(each) for each in value]
    return value


def integer(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """An integer of Python, NumPy or torch. InputError for anything else, or if it is not within the bounds."""
    number = _index(value)
    if number is None or not least <= number <= most:
        upper = "" if most == 2**63 - 1 else f" and at most {most}"
        raise InputError(f"{name} is {shown(plain(value), repr)}; give an integer of at least {least}{upper}")
    return number


def switch(name: str, value: Any) -> bool:
    """True or False, of Python or NumPy. InputError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} is {shown(plain(value), repr)}; give True or False")
    return bool(value)


def one_of(what: str, value: Any, choices: Sequence[str]) -> str:
    """One of some names. InputError for anything else. what: as in "there is no measure 'taxi'"."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"there is no {what} {shown(value, repr)}; choose one of {', '.join(choices)}")
    return value


def path(name: str, value: Any) -> Path:
    """A path given as text or as a path object, as file_path has it. InputError for anything else."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str) or "\0" in os.fspath(value):
        raise InputError(f"{name} is {shown(value, repr)}; give a path, as text or a pathlib.Path")
    return Path(file_path(value))


def is_single(items: Any) -> bool:
    """Whether it is one item rather than several."""
    return isinstance(items, (str, bytes)) or not hasattr(items, "__iter__") or getattr(items, "ndim", 1) == 0


def read_ids(what: str, items: Any, id_of: Optional[Callable[[str], int]] = None) -> np.ndarray:
    """The ids (n,) of one item or of several, an integer type; signed integer arrays are returned as they are.

    Args:
        what: the items in sentences, "entity" or "heads".
        id_of: from a name to its id; None where names mean nothing.

    Raises:
        InputError: no list in one dimension, or an item that is no integer and no name.
    """
    if isinstance(items, (Mapping, Set)):
        raise InputError(f"{what}: a {type(items).__name__} has no order, so that answers could not be told apart; "
                         "give a list")
    array = as_array(items)
    if array is not None:
        if array.ndim > 1:
            raise InputError(f"{what}: an array of shape {array.shape} is no list of ids; give one dimension")
        if array.ndim == 1 and array.dtype.kind == "i":
            return array
        if array.ndim == 1 and array.dtype.kind == "u" and array.max(initial=0) < 2**63:
            return array.astype(np.int64)
        missing = np.isnan(array) if array.ndim == 1 and array.dtype.kind == "f" else np.zeros(0, bool)
        if missing.any():  # of pandas, which makes numbers of 0 and <NA> floating point ones
            raise InputError(f"{what}: item {missing.argmax()} is missing; give an id or a name for each")
        items = array.tolist()
    ids = [_id(what, item, id_of) for item in ([items] if is_single(items) else items)]
    try:
        return np.array(ids, dtype=np.int64)
    except OverflowError:
        raise InputError(f"{_role(what)} id {shown(max(ids, key=abs))} is not in the model") from None


def read_together(read: Callable[[str, Any], np.ndarray], **given: Any) -> Tuple[bool, List[np.ndarray]]:
    """Whether all that is given are single items, and what `read` makes of each, (n,); a single item is repeated.

    Raises InputError for lists of different length.
    """
    given = {what: list(items) if not is_single(items) and not hasattr(items, "__len__") else items
             for what, items in given.items()}
    ids = {what: read(what, items) for what, items in given.items()}
    lengths = {what: len(ids[what]) for what, items in given.items() if not is_single(items)}
    if len(set(lengths.values())) > 1:
        message = " and ".join(f"{length} for {what}" for what, length in lengths.items())
        raise InputError(f"lists are taken element by element, but their lengths are {message}; give one length")
    n = next(iter(lengths.values()), 1)
    return not lengths, [np.ascontiguousarray(np.broadcast_to(each, n)) for each in ids.values()]


def read_triples(triples: Any, read: Callable[[str, Any], np.ndarray] = read_ids) -> Columns:
    """Heads, relations and tails (n,) of triples in any form: the one function that takes triples apart.

    Args:
        triples: rows, as an array (n, 3), a list or any iterable of triples; a tuple of three columns, of which one may
            be a single item; data.Triples; or a table or mapping with columns head, relation and tail. Arrays may be
            torch tensors.
        read: from ("heads", "relations" or "tails", items) to their ids.

    Raises:
        InputError: another form, one that could be rows as well as columns, and what `read` refuses.
    """
    heads, relations, tails = _columns(triples)
    head, relation, tail = read_together(read, heads=heads, relations=relations, tails=tails)[1]
    return head, relation, tail


def _columns(triples: Any) -> tuple:
    if isinstance(triples, Triples):
        return tuple(triples)
    # Of a structured array, and of pyarrow's tables, whose `columns` are no names.
    names = getattr(getattr(triples, "dtype", None), "names", None) or getattr(triples, "column_names", None)
    if isinstance(triples, Mapping) or names or hasattr(triples, "columns") and hasattr(triples, "to_numpy"):
        return _named(triples, list(names or (triples if isinstance(triples, Mapping) else triples.columns)))
    array = as_array(triples)
    if array is not None:
        if array.ndim == 2 and array.shape[1] == 3:
            return tuple(array.T)
        if array.shape == (0,):
            return array, array, array
        turned = "; give its transpose, .T" if array.ndim == 2 and array.shape[0] == 3 else ""
        raise InputError(f"{_FORMS}, and not an array of shape {array.shape}{turned}")
    if isinstance(triples, (str, bytes)) or not isinstance(triples, Iterable):
        raise InputError(f"{_FORMS}, and not {shown(triples, repr)}")
    return _of_sequence(triples, list(triples))


def _named(table: Any, names: list) -> tuple:
    lower = [name.lower() if isinstance(name, str) else name for name in names]
    for known in _NAMES:
        if len(lower) == 3 and set(lower) == set(known):
            return tuple(table[names[lower.index(each)]] for each in known)
    raise InputError(f"a table of triples has the three columns head, relation and tail, and not "
                     f"{shown(', '.join(map(str, names)) or 'none')}; choose and name them")


def _of_sequence(given: Any, members: list) -> tuple:
    if not members:
        return [], [], []
    single = [is_single(member) for member in members]
    if len(members) == 3 and (all(single) or any(single) and isinstance(given, tuple)):
        return tuple(members)
    if any(single):
        place = single.index(True)
        raise InputError(f"{_FORMS}, and item {place} is {shown(members[place], repr)}")
    members = [member if hasattr(member, "__len__") else list(member) for member in members]
    lengths, tuples = [len(member) for member in members], [isinstance(member, tuple) for member in members]
    rows = set(lengths) == {3}
    if rows and len(members) == 3:
        # A list of tuples is what zip makes of columns, and a tuple of lists or arrays is (heads, relations, tails).
        if isinstance(given, tuple) == all(tuples):
            raise InputError("three items of three each may be rows or columns; give rows as an array, "
                             "np.array(triples), and columns as a tuple of three arrays")
        rows = all(tuples)
    elif not rows and not (len(members) == 3 and isinstance(given, tuple)):  # a list of columns is one of rows of 3
        place = next(place for place, length in enumerate(lengths) if length != 3)
        raise InputError(f"{_FORMS}, and item {place} has {lengths[place]} elements")
    if not rows:
        return tuple(members)
    unordered = next((place for place, member in enumerate(members) if isinstance(member, (Mapping, Set))), None)
    if unordered is not None:
        raise InputError(f"{_FORMS}, and item {unordered} is a {type(members[unordered]).__name__}")
    return tuple(zip(*members))


def as_array(items: Any) -> Optional[np.ndarray]:
    """An array, tensor or column of a table as NumPy's; None for all else. InputError for masked elements, and for a
    tensor that NumPy cannot hold."""
    if np.ma.is_masked(items):
        raise InputError("an array of ids has masked elements; leave them out")
    try:
        if hasattr(items, "detach"):
            items = items.detach().cpu()
        return np.asarray(items) if hasattr(items, "__array__") else None
    except (TypeError, RuntimeError) as error:
        raise InputError(f"a tensor of {items.dtype} is no array of ids ({first_line(error)}); give integers in a "
                         "dense tensor") from None


def _index(value: Any) -> Optional[int]:
    """The integer that a value is, None if it is none; True and False are none."""
    value = plain(value) if hasattr(value, "tolist") else value
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except (TypeError, RuntimeError):
        return None


def _id(what: str, item: Any, id_of: Optional[Callable[[str], int]]) -> int:
    if isinstance(item, str):
        if id_of is None:
            raise InputError(f"{what}: {shown(str(item), repr)} is a name; give ids here, which Run.rank makes of "
                             "names")
        return id_of(str(item))
    number = _index(item)
    if number is None:
        message, text = ("neither the id nor the name", " or text") if id_of else ("not the id", "")
        raise InputError(f"{shown(plain(item), repr)} is {message} of one {_role(what)}; give integers{text}")
    return number


def _role(what: str) -> str:
    return "relation" if what.startswith("relation") else "entity"
