"""Checkpoints that are either complete or not there, whenever a run is killed.

A checkpoint is a folder `step-<number>` with one .npy file per array and a manifest with a checksum of its own. It is
written under a hidden name, synced and then renamed, so a folder with the final name is complete. The last checkpoint
is the one with the highest step; `best.json` names the best one. A table of any size passes through in blocks: it is
never a second time in memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...errors import InputError, remedy_of_reading, shortage, shown
from ...files import read_json, replace_file, sync_folder
from ...npy_files import npy_errors, read_npy
from ...store.row_blocks import row_blocks

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class StoredArray:
    """One array of a checkpoint: `bytes` is the size of its file, `crc32` the checksum of all of them."""

    shape: Tuple[int, ...]
    dtype: str
    bytes: int
    crc32: int


def refuse_other_configuration(path: Path, differences: Sequence[str]) -> None:
    """Raise InputError if there are differences from what `path` was written under."""
    if differences:
        raise InputError(f"{path} is of another configuration: {'; '.join(differences)}; resume with the same flags or "
                         "start a new run")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk.

    step: how many steps had been trained.
    config: what the run's numbers depend on, as JSON.
    state: what else the trainer needs to go on, as JSON.
    """

    path: Path
    step: int
    config: Dict[str, Any]
    state: Dict[str, Any]
    arrays: Dict[str, StoredArray]

    def check_config(self, config: Mapping[str, Any], apart_from: Sequence[str] = ()):
        """Raise InputError, naming each difference, unless the checkpoint was written under the same configuration,
        or one that differs in the keys `apart_from` alone."""
        now = _as_json(config)
        keys = sorted({*self.config, *now} - {*apart_from})
        differences = [f"--{key} was {_show(self.config, key)} and is {_show(now, key)}"
                       for key in keys if _show(self.config, key) != _show(now, key)]
        refuse_other_configuration(self.path, differences)

    def load_into(self, arrays: Mapping[str, np.ndarray]):
        """Fill the arrays, which must have the stored names, shapes and dtypes; any strides.

        Raises:
            InputError: if names, shapes, dtypes or file sizes differ, before anything is overwritten; or if a checksum
                differs, after which the contents of the arrays are undefined.
        """
        if set(arrays) != set(self.arrays):
            raise InputError(
                f"{self.path} holds {', '.join(sorted(self.arrays))}, but {', '.join(sorted(arrays))} are needed; "
                "resume with the same model")
        for name, array in arrays.items():
            stored = self.arrays[name]
            if (array.shape, array.dtype) != (stored.shape, np.dtype(stored.dtype)):
                raise InputError(
                    f"{name} in {self.path} is {stored.dtype} {stored.shape}, but {array.dtype} {array.shape} is "
                    "needed; resume with the same data and model")
        for name in arrays:
            self._check_size(name)
        for name, array in arrays.items():
            self._read(name, array)

    def _check_size(self, name: str):
        file = self.path / f"{name}.npy"
        size = file.stat().st_size if file.is_file() else None
        if size != self.arrays[name].bytes:
            found = "is missing" if size is None else f"has {size} bytes instead of {self.arrays[name].bytes}"
            raise InputError(f"{file} {found}; {self._remedy}")

    def mapped(self, name: str, remedy: str) -> np.ndarray:
        """An array memory-mapped, its checksum left alone. InputError, with this remedy, if its file is another's."""
        path, stored = self.path / f"{name}.npy", self.arrays[name]
        try:
            array = read_npy(path)
            if (array.shape, array.dtype) != (stored.shape, np.dtype(stored.dtype)):
                raise ValueError(f"it holds {array.dtype} {array.shape}")
            return array
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}; {remedy}") from error

    def _read(self, name: str, target: np.ndarray):
        path, stored = self.path / f"{name}.npy", self.arrays[name]
        try:
            with open(path, "rb") as file:
                checksum = zlib.crc32(_skip_header(file, stored))
                for block in _blocks(stored.shape, np.dtype(stored.dtype)):
                    shape = (block.stop - block.start, *stored.shape[1:])
                    buffer = np.empty(shape, stored.dtype)
                    if file.readinto(_bytes(buffer)) != buffer.nbytes:
                        raise ValueError("it is too short")
                    checksum = zlib.crc32(_bytes(buffer), checksum)
                    target[block] = buffer
        except (OSError, ValueError) as error:
            remedy = remedy_of_reading(error, self._remedy)
            raise InputError(f"cannot read {path}: {error}; {remedy}") from error
        if checksum != stored.crc32:
            raise InputError(
                f"{path} is damaged: its checksum is {checksum:08x} instead of {stored.crc32:08x}; {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"remove {self.path} to use the checkpoint before it, if there is one"


class CheckpointFolder:
    """The checkpoints of one run: the last and the best one. Any process may read; the one that writes holds the run's
    folder (lock.alone).

    While one is being written there are three, so a disk needs room for three tables with their optimizer states.
    """

    def __init__(self, path: os.PathLike):
        self.path = Path(path)

    def last(self) -> Optional[Checkpoint]:
        """The checkpoint with the highest step. Raises InputError if its manifest cannot be read."""
        steps = self._steps()
        return self._open(max(steps)) if steps else None

    def best(self) -> Optional[Checkpoint]:
        """The checkpoint that mark_best was last called for."""
        step = self._best_step()
        return None if step is None else self._open(step)

    def save(self, step: int, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any],
             state: Optional[Mapping[str, Any]] = None) -> Checkpoint:
        """Write the checkpoint of a step, then remove all others but the best. An existing one of that step is kept as
        it is.

        Args:
            arrays: by name (letters, digits, - and _); any strides, at least one dimension; must not change meanwhile.
                An array with a method write_npy(path, header) -> (bytes, CRC-32) writes its file itself.
            config, state: values that JSON can hold.
        Raises:
            InputError: if the disk is too small or cannot be written. Earlier checkpoints are then as they were.
        """
        with self._writing():
            self._remove_leftovers()
            if step not in self._steps():
                self._write(step, arrays, _as_json(config), _as_json(state or {}))
            self._prune(step)
        return self._open(step)

    def mark_best(self, step: int):
        """Keep the checkpoint of this step, which must exist, as the best one."""
        with self._writing():
            if step not in self._steps():
                raise ValueError(f"there is no checkpoint of step {step}")
            with replace_file(self.path / "best.json", "w") as file:
                json.dump({"step": step}, file)
            self._prune(max(self._steps()))

    def _steps(self):
        names = (re.fullmatch(r"step-(\d+)", entry.name) for entry in self.path.glob("step-*"))
        return [int(name[1]) for name in names if name]

    def _folder(self, step: int) -> Path:
        return self.path / f"step-{step:012d}"

    def _best_step(self) -> Optional[int]:
        try:
            step = read_json(self.path / "best.json", "remove it to go on without a best checkpoint")["step"]
            if not isinstance(step, int):
                raise TypeError(f"its step is {shown(step, repr)}")
            return step
        except FileNotFoundError:
            return None
        except (KeyError, TypeError) as error:
            raise InputError(f"{self.path / 'best.json'} cannot be read ({error}); remove it to go on without a best "
                             "checkpoint") from error

    def _open(self, step: int) -> Checkpoint:
        path = self._folder(step)
        try:
            manifest = read_json(path / MANIFEST, f"remove {path} to use the checkpoint before it, if there is one")
            if manifest["format"] != FORMAT:
                raise InputError(
                    f"{path} has format {manifest['format']}, this version reads {FORMAT}; use the version that "
                    "wrote it")
            checksum = manifest.pop("crc32", None)  # which not every version has written
            if checksum not in (None, _checksum(manifest)):
                raise ValueError("it has been changed since it was written, or is damaged")
            arrays = {_file_stem(name): StoredArray(tuple(a["shape"]), np.dtype(a["dtype"]).str, a["bytes"], a["crc32"])
                      for name, a in manifest["arrays"].items()}
            return Checkpoint(path, manifest["step"], manifest["config"], manifest["state"], arrays)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path / MANIFEST} cannot be read ({error}); remove {path} to use the checkpoint before it, if "
                "there is one") from error

    def _write(self, step: int, arrays: Mapping[str, np.ndarray], config, state):
        needed = sum(array.nbytes for array in arrays.values())
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise InputError(
                f"a checkpoint needs {needed:,} bytes, but {self.path} has {free:,} left; free some space, or "
                "choose another folder")
        unfinished = self.path / f".unfinished-{step}"
        unfinished.mkdir()
        stored = {
            name: asdict(_write_array(unfinished / f"{_file_stem(name)}.npy", array)) for name, array in arrays.items()}
        manifest = {"format": FORMAT, "step": step, "config": config, "state": state, "arrays": stored}
        with open(unfinished / MANIFEST, "w", encoding="utf-8") as file:
            json.dump({**manifest, "crc32": _checksum(manifest)}, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(unfinished)
        os.rename(unfinished, self._folder(step))
        sync_folder(self.path)

    def _prune(self, last: int):
        for step in set(self._steps()) - {last, self._best_step()}:
            removed = self.path / f".removed-{step}"  # a half-removed checkpoint must not have a valid name
            os.rename(self._folder(step), removed)
            shutil.rmtree(removed)

    def _remove_leftovers(self):
        """Remove the remains of a killed process."""
        for pattern in (".unfinished-*", ".removed-*"):
            for leftover in self.path.glob(pattern):
                shutil.rmtree(leftover)
        for leftover in self.path.glob(".best.json.*"):
            leftover.unlink()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                self._remove_leftovers()
            raise shortage(error) or InputError(
                f"cannot write checkpoints to {self.path}: {error.strerror or error}; free some space, or choose "
                "a folder that is writable") from error


def _file_stem(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ValueError(f"{name!r} is no name for an array")
    return name


def _write_array(path: Path, array: np.ndarray) -> StoredArray:
    if array.ndim == 0 or array.dtype.kind not in "biufc":
        raise ValueError(
            f"{path.stem} is {array.dtype} {array.shape}; only numbers, with at least one dimension, are stored")
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    if hasattr(array, "write_npy"):
        written = io.BytesIO()
        np.lib.format.write_array_header_2_0(written, header)
        return StoredArray(array.shape, array.dtype.str, *array.write_npy(path, written.getvalue()))
    with open(path, "w+b") as file:
        np.lib.format.write_array_header_2_0(file, header)
        file.seek(0)
        checksum = zlib.crc32(file.read())
        for block in _blocks(array.shape, array.dtype):
            data = _bytes(np.ascontiguousarray(array[block]))
            checksum = zlib.crc32(data, checksum)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return StoredArray(array.shape, array.dtype.str, file.tell(), checksum)


@npy_errors()
def _skip_header(file, stored: StoredArray) -> bytes:
    """Leave `file` where the elements begin and return what stands before them."""
    np.lib.format.read_magic(file)
    shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    if (shape, fortran_order, dtype) != (stored.shape, False, np.dtype(stored.dtype)):
        raise ValueError(f"it holds {dtype} {shape}")
    length = file.tell()
    file.seek(0)
    return file.read(length)


def _blocks(shape: Tuple[int, ...], dtype: np.dtype) -> Iterator[slice]:
    return row_blocks(shape[0], dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64)))


def _bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, not copied."""
    return memoryview(array.reshape(-1).view(np.uint8))


def _checksum(manifest: Mapping[str, Any]) -> int:
    """The CRC-32 of what a manifest says, however it is laid out."""
    return zlib.crc32(json.dumps(_as_json(manifest), sort_keys=True).encode())


def _as_json(value: Mapping[str, Any]) -> Dict[str, Any]:
    """The value as it will be after it was written and read."""
    return json.loads(json.dumps(value))


def _show(config: Mapping[str, Any], key: str) -> str:
    return json.dumps(config[key], sort_keys=True) if key in config else "not in use"
