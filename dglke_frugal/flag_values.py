"""Functions that read the value of a flag from text, as argparse takes them."""

from __future__ import annotations

import argparse
import math
import os
import re
from typing import Union

from .errors import shown
from .models import model_names

ALL = "all"  # entities, instead of a number of negatives
AUTO = "auto"
_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_UNITS = {"": 1, "B": 1, "K": 2**10, "KIB": 2**10, "KB": 10**3, "M": 2**20, "MIB": 2**20, "MB": 10**6, "G": 2**30,
          "GIB": 2**30, "GB": 10**9, "T": 2**40, "TIB": 2**40, "TB": 10**12}


def file_path(given: Union[str, os.PathLike]) -> str:
    """A path; ~ is the home folder, as in a shell, unless there is a file or folder of this very name."""
    text = os.fspath(given)
    return text if os.path.lexists(text) else os.path.expanduser(text)


def sample_size(text: str) -> Union[int, str]:
    """A number, or all."""
    try:
        return ALL if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is neither a number nor all") from None


def model_name(text: str) -> str:
    """One of the package's, or MODULE:CLASS."""
    if text not in model_names() and ":" not in text:
        known = ", ".join(model_names())
        raise argparse.ArgumentTypeError(f"there is no model '{text}'; choose from {known}, or give MODULE:CLASS")
    return text


def switch(text: str) -> bool:
    """on or off."""
    if text.lower() not in _SWITCH:
        raise argparse.ArgumentTypeError(f"'{text}' is neither on nor off")
    return _SWITCH[text.lower()]


def steps_or_epochs(text: str) -> Union[int, str]:
    """A number of steps, or of epochs, such as 2epochs, as text."""
    try:
        return f"{epochs_of(text):g}epochs" if "epoch" in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is neither a number of steps nor of epochs; write for "
                                         "instance 1000, or 1epoch") from None


def epochs_of(text: str) -> float:
    """How many epochs 2epochs are. ValueError for other text."""
    number = float(text.strip().removesuffix("s").removesuffix("epoch"))
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


def cache_share(text: str) -> Union[float, str]:
    """A number, or auto."""
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither auto nor a share; write for instance 0.05") from None


def byte_count(text: str) -> int:
    """Bytes of a size such as 8GiB, 500MB or 4096."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].upper() not in _UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; write for instance 8GiB")
    try:
        return int(float(match[1]) * _UNITS[match[2].upper()])
    except (ValueError, OverflowError):  # 1.2.3, or a number of hundreds of digits
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is not a size; write for instance 8GiB") from None


def network_speed(text: str) -> float:
    """Bytes a second of a speed in bits, such as 25Gb, 2.5Gb/s or 800Mb."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([MGT])b(?:it)?(?:/s|ps)?\s*", text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is not the speed of a network; write for instance 25Gb")
    return float(match[1]) * {"M": 1e6, "G": 1e9, "T": 1e12}[match[2]] / 8
