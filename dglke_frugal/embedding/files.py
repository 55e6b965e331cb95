"""Tables as files: .safetensors with the optimizer's state, .npy with the rows alone."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Callable, Dict, Iterator, Union

import numpy as np

from .. import _native
from ..errors import InputError
from ..files import replace_file
from ..flag_values import file_path
from ..npy_files import read_npy
from ..store.row_blocks import row_blocks

KINDS = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"), "U64": np.dtype("<u8")}
NAMES = {kind: name for name, kind in KINDS.items()}
MOST_HEADER_BYTES = 100 << 20  # as safetensors has it


def save(path: Union[str, os.PathLike], table: _native.HostTable, others: Dict[str, np.ndarray]) -> None:
    """Write the table to `path`, and to .safetensors also its state and further arrays, by name.

    The format is that of huggingface's safetensors: 8 bytes with the length of a JSON header, which says where each
    tensor lies, the header, the tensors. Raises InputError.
    """
    path, parts = file_path(path), {"weight": table.embeddings}
    if _suffix(path) == ".npy":
        if "keys" in others:
            raise InputError(f"{path} cannot hold the keys of a table by key; save it as .safetensors")
        with replace_file(path) as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": table.embeddings.shape}
            np.lib.format.write_array_header_1_0(file, header)
            _write(file, table.embeddings)
        return
    if table.state_floats:
        parts["optimizer_state"] = table.records[:, table.dim : table.record_floats]
    parts.update(others)
    described, end = {}, 0
    for name, array in parts.items():
        described[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    header = json.dumps(described).encode()
    header += b" " * (-len(header) % 8)
    with replace_file(path) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for array in parts.values():
            _write(file, array)


def load(path: Union[str, os.PathLike], table: _native.HostTable,
         restore: Callable[[Dict[str, np.ndarray]], None]) -> None:
    """Read rows and state, or rows alone with state 0, into the table.

    restore: gets what else there is, by name, before the table is touched; raises ValueError if that does not fit.

    Raises InputError if the file is not one of this table's shape; the table is then as it was.
    """
    path = file_path(path)
    suffix = _suffix(path)
    try:
        parts = ({"weight": read_npy(path)} if suffix == ".npy" else _read_safetensors(path))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give a file that an Embedding saved") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is not a whole {suffix} file ({error}); save the table again") from error
    needed = {"weight": table.embeddings}
    if table.state_floats and suffix != ".npy":
        needed["optimizer_state"] = table.records[:, table.dim : table.record_floats]
    for name, to in needed.items():
        if name not in parts or parts[name].shape != to.shape or parts[name].dtype != np.float32:
            found = f"{parts[name].dtype} {parts[name].shape}" if name in parts else "nothing"
            raise InputError(f"{path} holds {found} as {name}, but this table needs float32 {to.shape}; use the sizes "
                             "and the optimizer it was saved with")
    try:
        restore({name: values for name, values in parts.items() if name not in ("weight", "optimizer_state")})
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    for name, to in needed.items():
        for block in blocks(to):
            to[block] = parts[name][block]
    if "optimizer_state" not in needed:
        table.records[:, table.dim : table.record_floats] = 0


def _suffix(path) -> str:
    suffix = Path(path).suffix
    if suffix not in (".npy", ".safetensors"):
        raise InputError(f"{path} has no known format; end its name in .safetensors or .npy")
    return suffix


def _read_safetensors(path) -> Dict[str, np.ndarray]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size, MOST_HEADER_BYTES):
            raise ValueError("it has no header")
        described = json.loads(file.read(length))
    parts = {name: one for name, one in described.items() if name != "__metadata__"}
    for name, one in parts.items():
        if one["dtype"] not in KINDS:
            raise InputError(f"{path} holds {name} as {one['dtype']}, but a table reads {', '.join(KINDS)}; convert "
                             "the rows to float32")
    return {name: _view(path, 8 + length, size, one) for name, one in parts.items()}


def _view(path, begin: int, size: int, one: dict) -> np.ndarray:
    kind, shape = KINDS[one["dtype"]], tuple(int(length) for length in one["shape"])
    first, last = (int(place) for place in one["data_offsets"])
    if first < 0 or begin + last > size or last - first != int(np.prod(shape, dtype=np.int64)) * kind.itemsize:
        raise ValueError("its tensors are not where its header says")
    if first == last:
        return np.empty(shape, kind)
    return np.memmap(path, kind, "r", begin + first, shape)


def _write(file, array: np.ndarray) -> None:
    for block in blocks(array):
        file.write(np.ascontiguousarray(array[block]))


def blocks(array: np.ndarray) -> Iterator[slice]:
    """Ranges of rows that are read and written together."""
    return row_blocks(len(array), array.nbytes // max(1, len(array)))
