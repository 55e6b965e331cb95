"""Text files that gzip has packed, read as if it had not."""
from __future__ import annotations

import gzip
import zlib

_GZIP_MARK = b"\x1f\x8b"


def unpacked(file):
    """An unbuffered binary file, or if its first bytes are gzip's a reader of what is packed in it.

    The reader has `readinto` and `read` and is a context manager, as the file is; damage is an OSError there too, whose
    strerror says what is wrong.
    """
    if not file.seekable():  # a pipe has no second look at its first bytes
        return file
    packed = file.read(len(_GZIP_MARK)) == _GZIP_MARK
    file.seek(0)
    return _Unpacked(file) if packed else file


class _Unpacked:
    def __init__(self, file):
        self._file, self._content = file, gzip.GzipFile(fileobj=file)

    def readinto(self, buffer) -> int:
        return self._checked(self._content.readinto, buffer)

    def read(self, size: int) -> bytes:
        return self._checked(self._content.read, size)

    @staticmethod
    def _checked(read, argument):
        try:
            return read(argument)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise OSError(0, f"its gzip data is damaged or cut off ({error})") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._content.close()
        self._file.close()
