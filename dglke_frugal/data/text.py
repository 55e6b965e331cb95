"""Reading text files of triples and names, block by block, with an exact sentence about whatever is wrong in them.

A name is all that stands between its delimiters, white space included; only at the two ends of a line white space is
dropped, as DGL-KE drops it, and not even there where a line holds one name (lists, and maps of ids to names).
"""
from __future__ import annotations

import codecs
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

import numpy as np

from .. import _native
from ..errors import InputError
from ..progress import progress
from .column_names import header_order
from .graph import Triples
from .unpacked import unpacked

BLOCK_BYTES = 2 << 20  # large enough to split among threads, small enough not to matter next to the arrays
_PACKED = {b"\x1f\x8b": ("gzip", "gunzip"), b"BZh91AY&SY": ("bzip2", "bunzip2"), b"\xfd7zXZ\0": ("xz", "unxz"),
           b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"), b"PK\x03\x04": ("zip", "unzip")}  # by how they begin


@dataclass(frozen=True)
class LineFormat:
    """How the lines of triple files are laid out.

    order: which of head, relation, tail stands in columns 1, 2, 3, e.g. "htr".
    weighted: column 4 is the edge importance.
    exact: further columns are an error; else they are ignored, as DGL-KE does.
    header: the first line names the columns.
    """

    order: str = "hrt"
    delimiter: str = "\t"
    weighted: bool = False
    exact: bool = False
    header: bool = False


def open_input(path: Path, read_once: bool = False):
    """The file opened for unbuffered binary reading; InputError if that cannot be, or if it is a pipe, unless that is
    `read_once`."""
    try:
        kind = path.stat().st_mode  # before it is opened: to open a pipe waits for its writer
        if not (read_once or stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise InputError(f"{path} is a pipe or a device, and data files are read several times, by --resume and "
                             "dglke_eval as well; write what comes out of it to a file and name that")
        return open(path, "rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        remedy = "give a file that is there" if read_once else "check --data_path, --dataset and --data_files"
        raise InputError(f"{path} does not exist; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder where a file is needed; give the path of a file") from None
    except PermissionError:
        raise InputError(f"{path} may not be read by this user; change its permissions") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file and its disk") from None


def blocks(path: Path, is_list: bool = False) -> Iterator[Tuple[int, int, np.ndarray]]:
    """Blocks of whole lines as (number of lines before, number of lines, uint8 array that is valid until the next one).

    Each block ends with a newline; one is added where the file's last line has none. Blank lines at the end of the file
    are left out. Raises InputError for a file that cannot be read, or is no text of such lines.

    is_list: a line is a name, so one of nothing but spaces is not blank; the file is read once, so it may be a pipe.
    """
    buffer = bytearray(BLOCK_BYTES + 1)
    room = memoryview(buffer)
    filled = lines = 0
    blank_line = None  # the first of the blank lines before `lines`, which are the file's last unless something follows
    with unpacked(open_input(path, is_list)) as file:
        while True:
            try:
                count = file.readinto(room[filled:BLOCK_BYTES])
            except OSError as error:
                raise InputError(f"cannot read {path}: {error.strerror}; check the file and its disk") from None
            if lines == 0:
                _refuse_other_formats(path, bytes(buffer[: min(16, filled + count)]))
            filled += count
            if count == 0:
                if filled == 0:
                    return
                room[filled] = 10
                filled += 1
            end = buffer.rfind(b"\n", 0, filled) + 1
            if end == 0 and filled == BLOCK_BYTES:
                raise InputError(f"{path}, line {lines + 1} is longer than {BLOCK_BYTES:,} bytes; is this a text file?")
            if end == 0:
                continue
            _refuse_nul(path, lines, buffer, end)
            if not is_list:  # a name in the middle of a line of triples may begin with one, and be listed
                _refuse_byte_order_marks(path, lines, buffer, end)
            _refuse_bare_returns(path, lines, buffer, end)
            last = _end_of_last_line(buffer, end, b"\r\n" if is_list else None)
            if last and blank_line is not None:
                raise InputError(f"{path}, line {blank_line} is blank; remove it")
            block = np.frombuffer(buffer, np.uint8, last)
            rows = _native.count_newlines(block)
            if last:
                yield lines, rows, block
            if last < end and blank_line is None:
                blank_line = lines + rows + 1
            lines += rows + buffer.count(b"\n", last, end)
            buffer[: filled - end] = buffer[end:filled]
            filled -= end


def _refuse_other_formats(path: Path, start: bytes) -> None:
    """InputError if a file that begins so is packed, or text in another encoding than UTF-8."""
    for magic, (kind, program) in _PACKED.items():
        if start.startswith(magic):
            raise InputError(f"{path} is a {kind} file; unpack it ({program}) and name the text file in it")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}, line 1 begins with the byte order mark of UTF-16; save the file as UTF-8")
    if start.startswith(codecs.BOM_UTF8):
        raise _byte_order_mark(path, 1)


def _refuse_nul(path: Path, lines: int, buffer: bytearray, end: int) -> None:
    at = buffer.find(b"\0", 0, end)
    if at >= 0:
        line = lines + 1 + buffer.count(b"\n", 0, at)
        raise InputError(f"{path}, line {line} has a NUL byte, which no text has; is it a binary file?")


def _refuse_byte_order_marks(path: Path, lines: int, buffer: bytearray, end: int) -> None:
    """A mark may begin any line where files were joined, and is no part of the name that it seems to belong to."""
    if buffer.find(codecs.BOM_UTF8[:1], 0, end) < 0:  # one byte is found many times faster than several
        return
    at = 0 if buffer.startswith(codecs.BOM_UTF8) else buffer.find(b"\n" + codecs.BOM_UTF8, 0, end) + 1
    if buffer.startswith(codecs.BOM_UTF8, at):
        raise _byte_order_mark(path, lines + 1 + buffer.count(b"\n", 0, at))


def _byte_order_mark(path: Path, line: int) -> InputError:
    return InputError(f"{path}, line {line} begins with a byte order mark; save the file as UTF-8 without it")


def _end_of_last_line(buffer: bytearray, end: int, blank: Optional[bytes]) -> int:
    """Where the last line that is not blank ends, of whole lines that end at `end`; 0 if all are blank.

    blank: what blank lines consist of; None: all white space of ASCII.
    """
    if end > 1 and buffer[end - 2] > 32:  # nearly always
        return end
    content = len(buffer[:end].rstrip(blank))
    return buffer.find(b"\n", content, end) + 1 if content else 0


def _refuse_bare_returns(path: Path, lines: int, buffer: bytearray, end: int) -> None:
    if buffer.find(b"\r", 0, end) < 0 or buffer.count(b"\r", 0, end) == buffer.count(b"\r\n", 0, end):
        return
    at = next(i for i in range(end) if buffer[i] == 13 and buffer[i + 1] != 10)
    line = lines + 1 + buffer.count(b"\n", 0, at)
    raise InputError(f"{path}, line {line} has a carriage return without a newline; "
                     "convert the file's line ends to \\n")


def _refuse_non_utf8(path: Path, lines: int, block: np.ndarray) -> None:
    try:
        codecs.utf_8_decode(block, "strict", True)
    except UnicodeDecodeError as error:
        line = lines + 1 + _native.count_newlines(block[: error.start])
        raise InputError(f"{path}, line {line} is not valid UTF-8; convert the file to UTF-8") from None


def count_lines(path: Path, header: bool = False) -> int:
    """Number of lines, the last one with or without a newline, without the header; InputError if there are none."""
    lines = 0
    for before, rows, _ in blocks(path):
        lines = before + rows
    if lines <= header:
        raise InputError(f"{path} has no line but its header; it must have at least one more" if lines else
                         f"{path} is empty; it must have at least one line")
    return lines - header


def with_header(path: Path, lines: LineFormat) -> LineFormat:
    """How the lines of a file of names are laid out, if its first one may name the columns (head, relation, tail).

    Raises InputError if it names others before them, which would be read in their place.
    """
    with unpacked(open_input(path)) as file:
        try:
            first = file.read(1000).partition(b"\n")[0].decode("utf-8", "replace")
        except OSError:  # which is reported when the file is read
            return lines
    cells = [cell.strip() for cell in first.strip().split(lines.delimiter)]
    order = header_order(cells)
    if order is not None and max(order) > 2:
        columns = ", ".join(str(place + 1) for place in order)
        raise InputError(f"{path}, line 1 names head, relation and tail in columns {columns}, and triples of text "
                         "files are in the first three; move them there")
    if order is None or len(cells[0]) == 1:  # h, r and t may well be names
        return lines
    return replace(lines, header=True, order="".join("hrt"[order.index(place)] for place in range(3)))


def _sentence(path: Path, before: int, complaint: tuple, lines: LineFormat, columns_needed: str, role: str,
              bound: int) -> InputError:
    """Words a complaint of the parser about a line of `path`, `before` lines into the file."""
    kind, line, column, text = complaint
    where = f"{path}, line {before + line + 1}"
    shown = text.decode("utf-8", "replace")
    if kind == "columns" and column == 0:
        return InputError(f"{where} is blank; remove it")
    remedy = {
        "columns": f"has {column} column{'s' * (column != 1)} where {columns_needed} are needed; "
                   f"check the delimiter ({lines.delimiter!r} now) and whether the line is cut off",
        "not_integer": f"column {column + 1}: {shown!r} is not an integer id; use a raw_udd format for names",
        "negative": f"column {column + 1}: the {role} id {shown} is negative; ids start at 0",
        "out_of_range": f"column {column + 1}: the {role} id {shown} is not below {bound:,}, the number of them; "
                        "correct the line or the map file",
        "unknown_name": f"column {column + 1}: the {role} {shown!r} is not in its map file; add it there",
        "empty_name": f"column {column + 1}: the {role} has no name; write one",
        "tab": f"column {column + 1}: the name {shown!r} has a tab in it, which separates the columns of id maps; "
               "replace it, for instance by a space",
        "quotes": f"column {column + 1}: the name {shown!r} ends within quotation marks, as in CSV or N-Triples, which "
                  f"this reader does not know; write the file with a delimiter that no name has, such as a tab",
        "weight": f"column {column + 1}: the edge importance {shown!r} is not a finite number above 0; correct it",
        "duplicate": f"column {column + 1}: the name {shown!r} stands on an earlier line, too; remove one of them",
    }[kind]
    return InputError(f"{where}{' ' if kind == 'columns' else ', '}{remedy}")


def _triple_error(path, before, complaint, lines: LineFormat, n_entities: int, n_relations: int) -> InputError:
    needed = f"{'exactly' if lines.exact else 'at least'} {3 + lines.weighted}"
    is_relation = complaint[0] != "columns" and complaint[2] < 3 and lines.order[complaint[2]] == "r"
    role, bound = ("relation", n_relations) if is_relation else ("entity", n_entities)
    return _sentence(path, before, complaint, lines, needed, role, bound)


def _fill(path: Path, out: Triples, parse, error, header: bool = False) -> None:
    """Parses all of `path` into `out`, which has as many elements as the file has lines, the header left out."""
    with progress(len(out), f"reading {path.name}", "triples") as bar:
        before = rows = 0
        for before, rows, block in blocks(path):
            if before == 0 and header:
                block, before, rows = block[int(np.argmax(block == 10)) + 1 :], 1, rows - 1
            first = before - header
            if first + rows > len(out):
                raise InputError(f"{path} grew while it was read; start again when it is complete")
            part = slice(first, first + rows)
            weight = None if out.weight is None else out.weight[part]
            complaint = parse(before, block, out.head[part], out.relation[part], out.tail[part], weight)
            if complaint is not None:
                raise error(path, before, complaint)
            bar.update(rows)
        if before - header + rows < len(out):
            raise InputError(f"{path} shrank while it was read; start again when it is complete")


def read_id_triples(path: Path, lines: LineFormat, n_entities: int, n_relations: int, out: Triples) -> None:
    """Reads a file of integer triples into the columns of `out` (one element per line)."""

    def parse(before, block, head, relation, tail, weight):
        return _native.parse_id_triples(block, lines.delimiter, lines.order, lines.exact, n_entities, n_relations,
                                        head, relation, tail, weight)

    def error(path, before, complaint):
        return _triple_error(path, before, complaint, lines, n_entities, n_relations)

    _fill(path, out, parse, error)


def read_name_triples(path: Path, lines: LineFormat, entities: _native.NameTable, relations: _native.NameTable,
                      number_new: bool, out: Triples) -> None:
    """Reads a file of triples of names into the columns of `out`, looking names up, or with `number_new` giving each
    new one the next id in the order of the file, a line's head before its tail."""

    def parse(before, block, head, relation, tail, weight):
        _refuse_non_utf8(path, before, block)
        return _native.parse_name_triples(block, lines.delimiter, lines.order, number_new, entities, relations,
                                          head, relation, tail, weight)

    def error(path, before, complaint):
        return _triple_error(path, before, complaint, lines, len(entities), len(relations))

    _fill(path, out, parse, error, lines.header)


def read_list(path: Path) -> List[str]:
    """The lines of a file, or a pipe, of one name or id per line. InputErrors as for `blocks`, or for an empty file."""
    lines: List[str] = []
    for before, _, block in blocks(path, is_list=True):
        _refuse_non_utf8(path, before, block)
        lines += bytes(block).decode("utf-8").replace("\r\n", "\n").split("\n")[:-1]
    if not lines:
        raise InputError(f"{path} is empty; give one item per line")
    return lines


def read_name_map(path: Path, delimiter: str = "\t", count_line: bool = False,
                  stripped: bool = False) -> Tuple[np.ndarray, np.ndarray]:
    """Names of a map file (id delimiter name, or name delimiter id), in the order of their ids, as `Names` packs them.

    count_line: the first line is a count, to be skipped. stripped: white space at the ends of a line is dropped, as
    DGL-KE reads the dictionaries of its own data sets. Ids must be 0 .. n - 1, each once, in any order.
    """
    skip = int(count_line)
    count = count_lines(path) - skip
    ids = np.empty(count, np.int64)
    table = _native.NameTable()
    lines = LineFormat(delimiter=delimiter)
    name_first = None
    for before, _, block in blocks(path):
        _refuse_non_utf8(path, before, block)
        if before == 0 and skip:
            block = block[int(np.argmax(block == 10)) + 1 :]
            before = skip
        if not len(block):
            continue
        if name_first is None:
            name_first = _name_comes_first(block, delimiter)
        complaint = _native.parse_name_map(block, delimiter, name_first, not stripped, table, ids[before - skip :])
        if complaint is not None:
            raise _sentence(path, before, complaint, lines, "exactly 2 (id and name)", "id", count)
    if len(table) != count:
        raise InputError(f"{path} changed while it was read; start again when it is complete")
    _check_ids(path, ids, skip)
    data, offsets = table.release()
    if not np.array_equal(ids, np.arange(count)):
        data, offsets = _reordered(data, offsets, ids)
    return data, offsets


def _name_comes_first(block: np.ndarray, delimiter: str) -> bool:
    """Whether the first line is name, id. Id, name is DGL-KE's order, so it wins where both fields are numbers."""
    first = bytes(block[: int(np.argmax(block == 10))]).decode("utf-8").split(delimiter)
    return len(first) == 2 and not first[0].strip().isdigit() and first[1].strip().isdigit()


def _check_ids(path: Path, ids: np.ndarray, skip: int) -> None:
    count = len(ids)
    beyond = ids >= count
    if beyond.any():
        line = int(np.argmax(beyond))
        raise InputError(
            f"{path}, line {line + skip + 1}: id {ids[line]} in a file of {count:,} names leaves a gap; "
            f"number them from 0 to {count - 1} without gaps")
    seen = np.zeros(count, bool)
    seen[ids] = True
    if not seen.all():
        order = np.argsort(ids, kind="stable")
        line = int(order[1:][np.diff(ids[order]) == 0].min())
        raise InputError(f"{path}, line {line + skip + 1}: id {ids[line]} stands on an earlier line, too; "
                         f"number the names from 0 to {count - 1}, each once")


def _reordered(data: np.ndarray, offsets: np.ndarray, ids: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Packed names where name i gets place ids[i]."""
    place = np.argsort(ids, kind="stable")
    lengths = np.diff(offsets)[place]
    moved = np.concatenate([[0], np.cumsum(lengths)])
    index = np.repeat(offsets[:-1][place] - moved[:-1], lengths) + np.arange(moved[-1])
    return data[index], moved


def read_count(path: Path) -> int:
    """The count on the first line of a Freebase map file, checked against the lines that follow it if there are any."""
    with unpacked(open_input(path)) as file:
        start = file.read(64)
    _refuse_other_formats(path, start)
    first = start.split(b"\n", 1)[0].strip()
    if not first.isdigit() or int(first) == 0:
        shown = first.decode("utf-8", "replace")
        raise InputError(f"{path}, line 1 must be the number of names that follow, not {shown!r}")
    listed = count_lines(path) - 1
    if listed not in (0, int(first)):
        raise InputError(f"{path}, line 1 says {int(first):,} names, but {listed:,} lines follow; "
                         "correct the count or fetch the complete file")
    return int(first)
