"""Files as other programs write them: packed by gzip, with the line ends of Windows, with blank lines at the end."""

import gzip

import numpy as np
import pytest
from data.test_damage import MAKE, refused

from dglke_frugal.data import load_graph, text
from dglke_frugal.errors import InputError


def columns(graph):
    return {name: [column.tolist() for column in triples] for name, triples in graph.splits.items()}


def names(graph):
    return list(graph.entity_names), list(graph.relation_names)


CHANGES = {"gzip": gzip.compress,
           "several gzip members": lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:]),
           "CRLF": lambda data: data.replace(b"\n", b"\r\n"), "blank line": lambda data: data + b"\n",
           "blank lines of all kinds": lambda data: data + b"\r\n  \t\n\n\r\n   ", "no newline": lambda data: data[:-1],
           "CRLF and a blank line in gzip": lambda data: gzip.compress(data.replace(b"\n", b"\r\n") + b"\r\n")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("family", MAKE)
def test_reads_the_same(tmp_path, family, change):
    folder, arguments = MAKE[family](tmp_path)
    plain = load_graph(**arguments)
    expected = columns(plain), names(plain)
    for path in list(folder.iterdir()):
        path.write_bytes(CHANGES[change](path.read_bytes()))
    changed = load_graph(**arguments)
    assert (columns(changed), names(changed)) == expected
    for weight in (triples.weight for triples in changed.splits.values() if triples.weight is not None):
        np.testing.assert_array_equal(weight, np.float32(1.5))


@pytest.mark.parametrize("block", [8, 16, 40, text.BLOCK_BYTES])
def test_only_blank_lines_at_the_end_are_left_out(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n\n \n\n\t\n\n\n\n\n\n\n\n\n")
    assert b"".join(bytes(part) for _, _, part in text.blocks(path)) == b"one\ntwo\n" and text.count_lines(path) == 2
    path.write_bytes(b"one\ntwo\n\n\n\n\n\n\n\n\n\n\n\n\nthree\n")
    if block < 16:  # the blank lines are a block of their own
        with pytest.raises(InputError, match="line 3 is blank; remove it"):
            text.count_lines(path)
    path.write_bytes(b"\n\n")
    with pytest.raises(InputError, match="is empty"):
        text.count_lines(path)


def test_a_blank_line_in_the_middle_is_refused(tmp_path):
    folder, arguments = MAKE["raw_udd"](tmp_path)
    lines = (folder / "train.txt").read_text().splitlines()
    (folder / "train.txt").write_text("\n".join([*lines[:5], "", *lines[5:]]) + "\n\n")
    refused(tmp_path, arguments, "train.txt, line 6 is blank; remove it")


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:15] + b"\xff\x00\xff" + data[18:]])
def test_damaged_gzip_is_reported(tmp_path, damage):
    folder, arguments = MAKE["raw_udd"](tmp_path)
    path = folder / "valid.txt"
    path.write_bytes(damage(gzip.compress(path.read_bytes() * 30)))
    refused(tmp_path, arguments, "cannot read .*valid.txt: its gzip data is damaged or cut off")
