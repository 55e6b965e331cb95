"""Fetching DGL-KE's own data sets: downloaded next to their place, checked, unpacked next to it, then moved there."""
from __future__ import annotations

import os
import shutil
import socket
import tempfile
import zipfile
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import List
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ..errors import InputError
from ..progress import progress

URL = "https://data.dgl.ai/dataset/{name}.zip"
MAX_RATIO = 200             # text of triples packs some 3 to 10 times; more than this is no data set
MAX_UNPACKED = 200 << 30    # Freebase unpacked is a tenth of it
_PIECE = 1 << 20


def fetch(name: str, folder: Path) -> Path:
    """Downloads and unpacks data set `name`, so that `folder / name` is there afterwards, whole, or not at all.

    Raises InputError: no connection, no such file, an incomplete or unsafe archive, no room.
    """
    url = URL.format(name=name)
    target = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    except OSError as error:
        raise InputError(f"cannot write to {folder} to download {name}: {error.strerror}; "
                         "choose a writable folder with --data_path") from error
    try:
        archive = work / f"{name}.zip"
        _download(url, archive, name, folder)
        _unpack(archive, work, name, url)
        os.replace(work / name, target)
    except OSError as error:
        raise InputError(f"cannot store {name} in {folder}: {error.strerror}; free some space or choose another "
                         "--data_path") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _by_hand(name: str, url: str, folder: Path) -> str:
    return f"download {url} elsewhere and unpack it so that {folder / name} holds its files, or correct --data_path"


def _download(url: str, archive: Path, name: str, folder: Path) -> None:
    try:
        with urlopen(Request(url, headers={"User-Agent": "dglke-frugal"}), timeout=30) as response:
            length = response.headers.get("Content-Length")
            expected = int(length) if length and length.isdigit() else None
            received = 0
            with open(archive, "wb") as file, progress(expected, f"downloading {name}", "bytes") as bar:
                for piece in iter(lambda: response.read(_PIECE), b""):
                    file.write(piece)
                    received += len(piece)
                    bar.update(len(piece))
    except HTTPError as error:
        raise InputError(f"{folder / name} is missing and {url} answers {error.code} {error.reason}; "
                         + _by_hand(name, url, folder)) from error
    except (URLError, HTTPException, socket.timeout, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"{folder / name} is missing and cannot be downloaded ({reason}); "
                         + _by_hand(name, url, folder)) from error
    if expected is not None and received != expected:
        raise InputError(f"the download of {url} broke off after {received:,} of {expected:,} bytes; try again, or "
                         + _by_hand(name, url, folder))


def _unpack(archive: Path, work: Path, name: str, url: str) -> None:
    """Unpacks what is safe of an archive to `work / name`; refuses the archive if anything in it is not."""
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _checked(packed, name, url, archive.stat().st_size)
            with progress(sum(member.file_size for member in members), f"unpacking {name}", "bytes") as bar:
                for member in members:
                    _unpack_member(packed, member, work, bar)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{url} is not a sound zip archive ({error}); try again later") from error
    if not (work / name).is_dir():
        raise InputError(f"{url} does not contain a folder {name}; unpack it yourself into the folder of --data_path")


def _checked(packed: zipfile.ZipFile, name: str, url: str, packed_bytes: int) -> List[zipfile.ZipInfo]:
    members = []
    for member in packed.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        kind = (member.external_attr >> 16) & 0o170000
        if path.is_absolute() or ".." in path.parts or ":" in member.filename or kind not in (0, 0o100000, 0o040000):
            raise InputError(f"{url} holds {member.filename!r}, which is no plain file inside the archive; "
                             "do not use it")
        if not member.is_dir() and path.parts[:1] == (name,):
            members.append(member)
    total = sum(member.file_size for member in members)
    if total > min(MAX_UNPACKED, MAX_RATIO * packed_bytes):
        raise InputError(f"{url} would unpack to {total:,} bytes, too many for {packed_bytes:,} packed; do not use it")
    return members


def _unpack_member(packed: zipfile.ZipFile, member: zipfile.ZipInfo, work: Path, bar) -> None:
    target = work / PurePosixPath(member.filename.replace("\\", "/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size  # what _checked has counted; a member that holds more is a bomb
    with packed.open(member) as source, open(target, "xb") as file:
        for piece in iter(lambda: source.read(_PIECE), b""):
            left -= len(piece)
            if left < 0:
                raise zipfile.BadZipFile(f"{member.filename} is longer than it says")
            file.write(piece)
            bar.update(len(piece))
