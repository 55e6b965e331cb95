"""Flags and values that are refused with a sentence on their replacement."""
from __future__ import annotations

from typing import Iterable, Mapping

from .errors import shown
from .nearest import or_nearest

_EVICTS = "use lfu, which keeps what was used most often, or static, which is faster on a GPU"
# A flag, or a flag and one value -> what to use instead, the end of a sentence.
REMOVED: Mapping[str, str] = {
    **{f"--cache_policy {name}": _EVICTS for name in ("lru", "epoch_lru", "epoch_lfu", "next_use")},
    "--bus_rows": "GPUs that share out columns choose by table and machine; leave it out",
    "--deterministic": "runs are always deterministic; leave it out",
    "--host_read": "GPUs read host rows in place; leave it out",
    "--host_write": "use --flush direct for stores by the GPU itself, --flush p2f for flush threads",
    "--matmul bf16": "use tf32, which has more digits", "--parallel dims": "its name is now columns",
    "--row_dtype bf16": "use fp16, which has more digits", "--save_dtype bf16": "use fp16, which has more digits"}


def instead_of_flag(name: object, flags: Iterable[str]) -> str:
    """The end of a sentence that says that there is no flag `name`, which may begin with dashes: what to use instead if
    it is removed, and otherwise the nearest of `flags`."""
    instead = REMOVED.get("--" + str(name).removeprefix("--"))
    return f": {instead}" if instead else or_nearest(name, flags)


def instead_of_value(flag: str, value: str) -> str:
    """The sentence about a removed value of --flag, and its replacement; empty if none is removed so."""
    instead = REMOVED.get(f"{flag} {value}")
    return f"there is no {flag} {shown(value)}: {instead}" if instead else ""
