"""Whatever is wrong with the files, the answer is one sentence with file, line and remedy, and nothing is written."""

import builtins
import bz2
import re

import pytest

from dglke_frugal.data import load_graph
from dglke_frugal.errors import InputError

N_ENTITIES, N_RELATIONS = 12, 3
TRIPLES = [(i % 12, i % 3, (5 * i + 1) % 12) for i in range(20)]
SPLITS = ("train.txt", "valid.txt", "test.txt")


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def make_built_in(folder):
    folder = folder / "wn18"
    folder.mkdir()
    write(folder / "entities.dict", [f"{i}\te{i}" for i in range(N_ENTITIES)])
    write(folder / "relations.dict", [f"{i}\tr{i}" for i in range(N_RELATIONS)])
    for split in SPLITS:
        write(folder / split, ["e{}\tr{}\te{}".format(*t) for t in TRIPLES])
    return folder, dict(dataset="wn18", path=folder.parent)


def make_freebase(folder):
    folder = folder / "Freebase"
    folder.mkdir()
    write(folder / "entity2id.txt", [f"{N_ENTITIES}"] + [f"e{i}\t{i}" for i in range(N_ENTITIES)])
    write(folder / "relation2id.txt", [f"{N_RELATIONS}"] + [f"r{i}\t{i}" for i in range(N_RELATIONS)])
    for split in SPLITS:
        write(folder / split, [f"{h}\t{t}\t{r}" for h, r, t in TRIPLES])
    return folder, dict(dataset="Freebase", path=folder.parent)


def make_udd(folder):
    write(folder / "entities.tsv", [f"{i}\te{i}" for i in range(N_ENTITIES)])
    write(folder / "relations.tsv", [f"{i}\tr{i}" for i in range(N_RELATIONS)])
    for split in SPLITS:
        write(folder / split, ["{}\t{}\t{}\t1.5".format(*t) for t in TRIPLES])
    return folder, dict(dataset="mine", path=folder, format="udd_hrt", has_edge_importance=True,
                        files=["entities.tsv", "relations.tsv", *SPLITS])


def make_raw_udd(folder):
    for split in SPLITS:
        write(folder / split, ["e{}\tr{}\te{}\t1.5".format(*t) for t in TRIPLES])
    return folder, dict(dataset="mine", path=folder, format="raw_udd_hrt", has_edge_importance=True, files=list(SPLITS))


MAKE = {"built_in": make_built_in, "Freebase": make_freebase, "udd": make_udd, "raw_udd": make_raw_udd}


def line(number, content):
    """Replaces one line, from 1."""

    def damage(path):
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(b"\n".join(lines))

    damage.shows = f"line {number}"
    return damage


def content(data):
    def damage(path):
        path.write_bytes(data)

    return damage


def missing(path):
    path.unlink()


def folder_instead(path):
    path.unlink()
    path.mkdir()


def commas(path):
    path.write_bytes(path.read_bytes().replace(b"\t", b","))


commas.shows = "line 1"


def byte_order_mark(path):
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


byte_order_mark.shows = "line 1"


def carriage_returns(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))


def packed(path):
    path.write_bytes(bz2.compress(path.read_bytes()))


def utf_16(path):
    path.write_bytes(path.read_text().encode("utf-16"))


def cut_off(path):
    path.write_bytes(path.read_bytes().rsplit(b"\t", 1)[0])


cut_off.shows = "line 20"

ANY_FILE = [(missing, "does not exist; check"), (content(b""), "is empty"), (folder_instead, "is a folder")]
ANY_TRIPLES = [*((file, damage, says) for damage, says in ANY_FILE for file in SPLITS),
               ("train.txt", line(3, ""), "is blank; remove it"),
               ("train.txt", line(1, "  \t "), "is blank; remove it"),
               ("valid.txt", commas, "has 1 column where .* are needed; check the delimiter"),
               ("train.txt", byte_order_mark, "byte order mark"),
               ("train.txt", carriage_returns, "carriage return"),
               ("test.txt", cut_off, "cut off"),
               ("train.txt", content(b"0" * (9 << 20)), "longer than"),
               ("train.txt", packed, "is a bzip2 file; unpack it"),
               ("test.txt", content(bytes(range(13, 256)) + bytes(range(256))), "line 1 has a NUL byte.* binary"),
               ("train.txt", line(4, b"e0\tr0\te\x001\t1"), "has a NUL byte"),
               ("valid.txt", utf_16, "UTF-16; save the file as UTF-8")]
WEIGHTS = [
    *(("train.txt", line(4, row + weight), f"edge importance '{re.escape(weight)}' is not a finite number above 0")
      for row in ("{e}0\t{r}0\t{e}1\t",) for weight in ("nan", "-1", "0", "inf", "heavy", "1e999", "0x1p3")),
    ("valid.txt", line(4, "{e}0\t{r}0\t{e}1"), "has 3 columns where at least 4")]
ID_TRIPLES = [("train.txt", line(7, "x\t{a}\t1{w}"), "'x' is not an integer id"),
              ("train.txt", line(7, "1.0\t{a}\t1{w}"), "'1.0' is not an integer id"),
              ("train.txt", line(7, "1\t\t{a}{w}"), "'' is not an integer id"),
              ("valid.txt", line(20, "-1\t{a}\t1{w}"), "the entity id -1 is negative"),
              ("test.txt", line(20, "12\t{a}\t1{w}"), "the entity id 12 is not below 12"),
              ("train.txt", line(2, "99999999999999999999\t{a}\t1{w}"), "id 99999999999999999999 is not below 12"),
              ("train.txt", line(2, b"\xff\t{a}\t1{w}"), "is not an integer id")]
NAME_TRIPLES = [("train.txt", line(9, b"e\xff\tr1\te1\t1"), "not valid UTF-8"),
                ("test.txt", line(9, "e1\t\te1\t1"), "the relation has no name")]
MAPS = [*((file, damage, says) for damage, says in ANY_FILE for file in ("{entities}", "{relations}")),
        ("{entities}", line(5, "4"), "has 1 column where exactly 2"),
        ("{entities}", line(5, "4\te4\tx"), "has 3 columns where exactly 2"),
        ("{entities}", line(5, "x\te4"), "'x' is not an integer id"),
        ("{entities}", line(5, "-4\te4"), "id -4 is negative"),
        ("{entities}", line(5, "40\te4"), "id 40 in a file of 12 names leaves a gap"),
        ("{relations}", line(2, "0\tr1"), "id 0 stands on an earlier line"),
        ("{entities}", line(12, "11\te3"), "'e3' stands on an earlier line"),
        ("{entities}", line(5, ""), "is blank"),
        ("{entities}", line(5, b"4\t\xc3"), "not valid UTF-8"),
        ("{entities}", commas, "has 1 column where exactly 2"),
        ("{entities}", packed, "is a bzip2 file"),
        ("{relations}", line(2, b"1\tr\x001"), "NUL")]
DICTIONARIES = [("train.txt", line(6, "e0\tr0\te99"), "column 3: the entity 'e99' is not in its map file"),
                ("train.txt", line(6, "e99\tr0\te0"), "column 1: the entity 'e99' is not in its map file"),
                ("valid.txt", line(6, "e0\tr9\te1"), "column 2: the relation 'r9' is not in its map file")]
COUNTS = [
    *((file, damage, says)
      for damage, says in ANY_FILE[:1] + ANY_FILE[2:]
      for file in ("entity2id.txt", "relation2id.txt")),
    ("entity2id.txt", content(b""), "line 1 must be the number"),
    ("entity2id.txt", line(1, "e0\t0"), "must be the number of names that follow, not"),
    ("entity2id.txt", line(1, "0"), "must be the number"),
    ("entity2id.txt", line(1, "-3"), "must be the number"),
    ("entity2id.txt", line(1, "13"), "says 13 names, but 12 lines follow"),
    ("relation2id.txt", line(1, "2"), "says 2 names, but 3 lines follow"),
    ("train.txt", line(5, "0\t1\t3"), "the relation id 3 is not below 3"),
    ("train.txt", line(5, "0\t1\t2\t1.5"), "has 4 columns where exactly 3")]


def maps(**files):
    """The rows about map files, for those of this name."""
    return [(file.format(**files), damage, says) for file, damage, says in MAPS]


def filled(table, **values):
    """The rows with {a} and so on in their lines filled in."""
    rows = []
    for file, damage, says in table:
        def apply(path, damage=damage):
            damage(path)
            if path.is_file():
                data = path.read_bytes()
                for key, value in values.items():
                    data = data.replace(b"{" + key.encode() + b"}", value.encode())
                path.write_bytes(data)

        apply.shows = getattr(damage, "shows", "")
        rows.append((file, apply, says))
    return rows


TABLE = {
    "built_in": ANY_TRIPLES + NAME_TRIPLES[:1] + maps(entities="entities.dict", relations="relations.dict")
    + DICTIONARIES,
    "Freebase": ANY_TRIPLES + filled(ID_TRIPLES, a="2", w="") + COUNTS,
    "udd": ANY_TRIPLES + filled(ID_TRIPLES, a="2", w="\t1") + filled(WEIGHTS, e="", r="")
    + maps(entities="entities.tsv", relations="relations.tsv"),
    "raw_udd": ANY_TRIPLES + NAME_TRIPLES + filled(WEIGHTS, e="e", r="r")}


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder, arguments, says):
    """Loading fails with one sentence that matches, and changes no file."""
    before = snapshot(folder)
    with pytest.raises(InputError, match=says) as caught:
        load_graph(**arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 600
    assert snapshot(folder) == before
    return sentence


@pytest.mark.parametrize("family, file, damage, says",
                         [pytest.param(family, *row, id=f"{family}-{number}-{row[0]}")
                          for family, rows in TABLE.items() for number, row in enumerate(rows)])
def test_damaged_file(tmp_path, family, file, damage, says):
    folder, arguments = MAKE[family](tmp_path)
    load_graph(**arguments)
    damage(folder / file)
    sentence = refused(tmp_path, arguments, says)
    assert str(folder / file) in sentence and getattr(damage, "shows", "") in sentence


@pytest.mark.parametrize("family, change, says", [
    ("built_in", dict(dataset="FB16k"), "unknown --dataset 'FB16k' .* it is none of FB15k"),
    ("built_in", dict(format="csv"), "unknown --format 'csv'"),
    ("udd", dict(format="udd_hhr"), "unknown --format 'udd_hhr'; it must be built_in, or"),
    ("udd", dict(format="udd"), "unknown --format 'udd'"),
    ("udd", dict(files=["entities.tsv"]), "takes 3 to 5 --data_files, not 1"),
    ("udd", dict(files=None), "takes 3 to 5 --data_files, not 0: entity file, relation file"),
    ("raw_udd", dict(files=["train.txt"] * 4), "takes 1 to 3 --data_files, not 4: train file"),
    ("raw_udd", dict(dataset="FB15k"), "a name of their own with --dataset"),
    ("raw_udd", dict(delimiter=""), "--delimiter '' cannot separate columns"),
    ("raw_udd", dict(delimiter="\n"), "cannot separate columns"),
    ("raw_udd", dict(delimiter="|"),
     r"line 1 has 1 column where at least 4 are needed; check the delimiter \('\|' now\)"),
    ("raw_udd", dict(files=["../nothing.txt"]), "nothing.txt does not exist"),
    ("built_in", dict(has_edge_importance=True), "built-in data sets have no edge importance")])
def test_bad_argument(tmp_path, family, change, says):
    _, arguments = MAKE[family](tmp_path)
    refused(tmp_path, {**arguments, **change}, says)


def test_unreadable(tmp_path, monkeypatch):
    folder, arguments = MAKE["udd"](tmp_path)
    genuine = builtins.open

    def forbidding(file, *rest, **options):
        if str(file).endswith("valid.txt"):
            raise PermissionError(13, "Permission denied")
        return genuine(file, *rest, **options)

    monkeypatch.setattr(builtins, "open", forbidding)
    with pytest.raises(InputError, match="valid.txt may not be read by this user; change its permissions"):
        load_graph(**arguments)


@pytest.mark.parametrize("delimiter", [",", "::", "\t "])
def test_a_tab_in_a_name(tmp_path, delimiter):
    """An id map of such names could not be read again, for its columns are separated by tabs."""
    lines = [delimiter.join(("e0", "r0", "e1"))] * 3
    write(tmp_path / "train.txt", [*lines, delimiter.join(("e0", "r\t0", "e1"))])
    given = dict(dataset="mine", path=tmp_path, delimiter=delimiter)
    refused(tmp_path, dict(given, format="raw_udd_hrt", files=["train.txt"]),
            r"train.txt, line 4, column 2: the name 'r\\t0' has a tab in it")
    write(tmp_path / "entities", [delimiter.join(("0", "e0")), delimiter.join(("1", "e\t1"))])
    write(tmp_path / "relations", [delimiter.join(("0", "r0"))])
    write(tmp_path / "ids.txt", [delimiter.join(("0", "0", "1"))])
    refused(tmp_path, dict(given, format="udd_hrt", files=["entities", "relations", "ids.txt"]),
            "entities, line 2, column 2: .* has a tab in it")
