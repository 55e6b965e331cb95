"""The record in a run's config.json of the tables next to it: their step, and a checksum of each file."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, Optional

from .errors import InputError
from .files import read_json

CONFIG_FILE = "config.json"
KEY = "saved"


@dataclass(frozen=True)
class SavedTables:
    """Files that were saved together. Of a folder that says nothing, as DGL-KE's, every file is taken as it is.

    step: how many steps had been trained; None where the folder does not say. checksums: CRC-32 by file name.
    """

    step: Optional[int] = None
    checksums: Dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: str | os.PathLike) -> "SavedTables":
        """Read from a run's folder. Raises InputError for a config.json that cannot be read."""
        path = Path(folder) / CONFIG_FILE
        try:
            config = read_json(path, "copy it again from the run that wrote it")
        except FileNotFoundError:
            return cls()
        given = config.get(KEY) if isinstance(config, dict) else None
        if given is None:
            return cls()
        try:
            return cls(int(given["step"]), {str(name): int(value) for name, value in given["checksums"].items()})
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{path} has a damaged {KEY!r}; copy it again from the run that wrote it") from error

    def to_dict(self) -> Dict[str, Any]:
        """For config.json."""
        return asdict(self)

    def check(self, path: Path, checksum: int) -> None:
        """Raise InputError if the file at `path`, which has this checksum, is not the one that was saved."""
        expected = self.checksums.get(path.name, checksum)
        if checksum != expected:
            raise InputError(
                f"{path} is not the file that was saved after step {self.step}: its checksum is {checksum:08x} instead "
                f"of {expected:08x}, so it is damaged, changed, or of another step; copy the run's files again, or "
                f'remove "{KEY}" from {path.parent / CONFIG_FILE} to take them as they are')
