"""Files of odd names, read by us and by a plain reader that shares no code: the same graph, or an error by both."""

import gzip
import random

import numpy as np
import pytest

from dglke_frugal.cli import split
from dglke_frugal.data import load_graph, text
from dglke_frugal.data.name_maps import keep_name_maps
from dglke_frugal.errors import InputError
from dglke_frugal.inference.lists import read_list, read_names

SPACES = "".join(each for each in map(chr, range(0x3001)) if each.isspace() and each not in "\t\n\r")
LETTERS = "abcXYZ019_-./\\'#<>@^&%()[]{}äß中あ🙂\u0301\u200b\u200d\u202e\ufeff\x01\x7f\U0010fffd"
DELIMITERS = ["\t", ",", " ", ";", "|", "::", " , ", "||", "\u3000", "→", "\x1f", "-"]
BLANK = ["\n", "\r\n", " \n", "\t\t\n", "\x0b\r\n"]


class Refused(Exception):
    """The plain reader cannot tell what is meant."""


def plain_triples(content, delimiter, order, weighted):
    """Rows (head, relation, tail, weight) of a file, as DGL-KE reads it, from its bytes."""
    lines = content.decode().replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip(" \t\r\x0b\x0c"):
        lines.pop()
    rows = []
    for line in lines:
        fields = line.strip().split(delimiter)
        if line.startswith("\ufeff") or len(fields) < 3 + weighted or not all(fields[:3]):
            raise Refused
        if delimiter != "\t" and any("\t" in field for field in fields[:3]):
            raise Refused
        try:
            weight = float(fields[3]) if weighted else None
        except ValueError:
            raise Refused from None
        rows.append((*(fields[order.index(letter)] for letter in "hrt"), weight))
    if not rows:
        raise Refused
    return rows


def plain_ids(splits):
    entities, relations, numbered = {}, {}, []
    for rows in splits:
        for head, relation, tail, _ in rows:
            numbered.append((entities.setdefault(head, len(entities)), relations.setdefault(relation, len(relations)),
                             entities.setdefault(tail, len(entities))))
    return list(entities), list(relations), numbered


class Drawn:
    """A file of triples, and how it is laid out."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.delimiter = self.random.choice(DELIMITERS)
        self.order = self.random.choice(["hrt", "htr", "rht", "rth", "thr", "trh"])
        self.weighted = self.random.random() < 0.3
        self.line_end = self.random.choice(["\n", "\n", "\r\n"])
        self.packed = self.random.random() < 0.2
        self.pool = [self.name() for _ in range(self.random.randrange(2, 30))]
        self.pool += [near for name in self.pool for near in (name.strip(SPACES), name + " ", " " + name)
                      if near and self.random.random() < 0.3]

    def name(self):
        length = self.random.choice([1, 1, 2, 3, 5, 12, self.random.choice([1, 300, 4000])])
        letters = LETTERS + SPACES * self.random.choice([0, 1, 3])
        found = "".join(self.random.choice(letters) for _ in range(length))
        while self.delimiter in found:
            found = found.replace(self.delimiter, "")
        return found or "n"

    def file(self):
        lines = []
        for _ in range(self.random.randrange(1, 60)):
            fields = [self.random.choice(self.pool) for _ in range(3)]
            if self.weighted:
                fields.append(self.random.choice(["1", "2.5", " 3e-2", "0.125 "]))
            fields += [self.random.choice(self.pool) for _ in range(self.random.choice([0, 0, 0, 1, 2]))]
            lines.append(self.delimiter.join(fields) + self.line_end)
        content = "".join(lines)
        if self.random.random() < 0.3:
            content += "".join(self.random.choice(BLANK) for _ in range(3))
        elif self.random.random() < 0.3:
            content = content.removesuffix(self.line_end)
        return content.encode()

    def write(self, path, content):
        path.write_bytes(gzip.compress(content) if self.packed else content)


@pytest.fixture
def drawn(fuzz_seed, monkeypatch):
    """Blocks hardly longer than the longest line may be, so that lines are cut anywhere."""
    drawn = Drawn(fuzz_seed)
    longest = 5 * max(len(name.encode()) for name in drawn.pool) + 32
    monkeypatch.setattr(text, "BLOCK_BYTES", longest + drawn.random.choice([0, 1, 2, 30, text.BLOCK_BYTES]))
    return drawn


@pytest.mark.fuzz(seeds=60)
def test_the_same_graph_or_an_error(drawn, tmp_path):
    names = ["train", "valid", "test"][: drawn.random.choice([1, 3])]
    contents = [drawn.file() for _ in names]
    for name, content in zip(names, contents):
        drawn.write(tmp_path / name, content)
    arguments = ["odd", tmp_path, f"raw_udd_{drawn.order}", names, drawn.delimiter, drawn.weighted]
    try:
        rows = [plain_triples(content, drawn.delimiter, drawn.order, drawn.weighted) for content in contents]
    except Refused:
        with pytest.raises(InputError, match=r"line \d+|is empty"):
            load_graph(*arguments)
        return
    graph = load_graph(*arguments)
    entities, relations, numbered = plain_ids(rows)
    assert list(graph.entity_names) == entities and list(graph.relation_names) == relations
    assert [tuple(ids) for part in graph.splits.values() for ids in zip(*map(np.ndarray.tolist, part))] == numbered
    if drawn.weighted:
        weights = np.concatenate([part.weight for part in graph.splits.values()])
        np.testing.assert_array_equal(weights, np.float32([row[3] for part in rows for row in part]))

    folder = tmp_path / "run"
    folder.mkdir()
    kept = keep_name_maps(graph, folder, tmp_path)
    for plain, path in ((entities, kept.entity_map), (relations, kept.relation_map)):
        written = path.read_bytes().decode().split("\n")
        assert written == [*(f"{i}\t{name}" for i, name in enumerate(plain)), ""]
        again = read_names(path)
        assert list(again) == plain
        if not plain[0].startswith("\ufeff"):
            (tmp_path / "list").write_bytes((drawn.line_end.join(plain) + drawn.line_end).encode())
            assert read_list(tmp_path / "list", again).tolist() == list(range(len(plain)))


@pytest.mark.fuzz(seeds=30)
def test_a_split_reads_as_its_file_does(drawn, tmp_path):
    content, source = drawn.file(), tmp_path / "odd.tsv"
    drawn.write(source, content)
    arguments = [str(source), f"--delimiter={drawn.delimiter}", "--order", drawn.order, "--test", ".3", "--valid", ".2",
                 "--out", str(tmp_path / "out")] + ["--has_edge_importance"] * drawn.weighted
    try:
        rows = plain_triples(content, drawn.delimiter, drawn.order, drawn.weighted)
    except Refused:
        with pytest.raises(SystemExit):
            split.main(arguments)
        assert not (tmp_path / "out").exists()
        return
    split.main(arguments)
    parts = {path.stem: plain_triples(path.read_bytes(), drawn.delimiter, drawn.order, drawn.weighted)
             for path in (tmp_path / "out").iterdir()}
    first = {row[:3]: row for row in reversed(rows)}
    assert sorted(sum(parts.values(), [])) == sorted(first.values())
    entities = {name for head, _, tail, _ in rows for name in (head, tail)}
    assert {name for head, _, tail, _ in parts["train"] for name in (head, tail)} == entities
    assert {row[1] for row in parts["train"]} == {row[1] for row in rows}


@pytest.mark.fuzz(seeds=30)
def test_maps_and_ids(drawn, tmp_path):
    """A udd graph: maps with names first or last, lines in any order, triples of ids."""
    whole = [name for name in drawn.pool if "\t" not in name and drawn.delimiter not in name]
    entities = list(dict.fromkeys(whole)) or ["n"]
    lines = [[str(i), name] for i, name in enumerate(entities)]
    drawn.random.shuffle(lines)
    content = "".join(drawn.delimiter.join(line) + drawn.line_end for line in lines)
    drawn.write(tmp_path / "entities", content.encode())
    (tmp_path / "relations").write_text(f"0{drawn.delimiter}r\n1{drawn.delimiter}s", encoding="utf-8")
    rows = [(drawn.random.randrange(len(entities)), drawn.random.randrange(2), drawn.random.randrange(len(entities)))
            for _ in range(20)]
    space = drawn.random.choice([""] * 3 + [space for space in SPACES if space not in drawn.delimiter])
    written = [drawn.delimiter.join(space + str(row["hrt".index(letter)]) for letter in drawn.order) for row in rows]
    drawn.write(tmp_path / "train", (drawn.line_end.join(written) + drawn.line_end).encode())
    graph = load_graph("odd", tmp_path, f"udd_{drawn.order}", ["entities", "relations", "train"], drawn.delimiter)
    assert list(graph.entity_names) == entities
    assert list(zip(*map(np.ndarray.tolist, graph.train))) == rows
