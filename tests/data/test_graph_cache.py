"""The mapped cache of the parsed form: same graph, rebuilt when stale, never in the way."""

import logging
import os
import shutil

import numpy as np
import pytest

from dglke_frugal.data import cache as parsed, load_graph, text
from dglke_frugal.errors import InputError

FILES = ["train", "valid", "test"]


@pytest.fixture
def arguments(tmp_path):
    rng = np.random.default_rng(0)
    for split in FILES:
        rows = rng.integers(0, 300, (500, 3))
        (tmp_path / split).write_text("".join(f"ä{h}\tr{r % 5}\tä{t}\t{1 + t}\n" for h, r, t in rows), "utf-8")
    return dict(dataset="mine", path=tmp_path, format="raw_udd_hrt", files=FILES, has_edge_importance=True, cache=True)


@pytest.fixture
def readings(monkeypatch):
    """The files that were parsed."""
    paths = []
    genuine = text.read_name_triples

    def counting(path, *rest):
        paths.append(path.name)
        return genuine(path, *rest)

    monkeypatch.setattr(text, "read_name_triples", counting)
    return paths


def equal(a, b):
    for split in FILES:
        for left, right in zip((*a.splits[split], a.splits[split].weight), (*b.splits[split], b.splits[split].weight)):
            np.testing.assert_array_equal(left, right)
    return (a.n_entities, a.n_relations, list(a.entity_names), list(a.relation_names)) == (
        b.n_entities, b.n_relations, list(b.entity_names), list(b.relation_names))


def cache_files(folder):
    return sorted(path for path in folder.iterdir() if path.suffix == ".frugal" or path.name.startswith(".mine"))


def test_second_run_reads_no_text(arguments, readings, tmp_path):
    plain = load_graph(**{**arguments, "cache": False})
    assert not cache_files(tmp_path) and len(readings) == 3
    first = load_graph(**arguments)
    assert len(cache_files(tmp_path)) == 1 and len(readings) == 6
    second = load_graph(**arguments)
    assert len(readings) == 6
    assert equal(plain, first) and equal(plain, second)


@pytest.mark.parametrize("change", ["content", "order", "flags", "cut", "garbage", "empty"])
def test_stale_or_broken_cache_is_rebuilt(arguments, readings, tmp_path, change):
    load_graph(**arguments)
    (cache,) = cache_files(tmp_path)
    data = cache.read_bytes()
    if change == "content":
        with open(tmp_path / "train", "a", encoding="utf-8") as file:
            file.write("new\tr0\tä1\t1\n")
    elif change == "order":  # the same size, and the date that it had
        lines = (tmp_path / "valid").read_bytes().splitlines(keepends=True)
        status = (tmp_path / "valid").stat()
        (tmp_path / "valid").write_bytes(b"".join(reversed(lines)))
        os.utime(tmp_path / "valid", ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "flags":
        arguments["has_edge_importance"] = False
    else:
        cache.write_bytes(
            {"cut": data[: len(data) // 2], "garbage": data[:-60] + b"x" * 44 + data[-16:], "empty": b""}[change])
    again = load_graph(**arguments)
    assert len(readings) == 6
    assert equal(again, load_graph(**{**arguments, "cache": False}))


@pytest.mark.parametrize("of", [b'"n_entities": ', b'"train.head": [', b'"int', b'"version": ', b"}}", b"dglkegr",
                                b"\xa4"])
def test_a_flipped_bit_is_noticed(arguments, readings, tmp_path, of):
    first = load_graph(**arguments)
    (cache,) = cache_files(tmp_path)
    data = bytearray(cache.read_bytes())
    data[data.index(of) + len(of)] ^= 1
    cache.unlink()  # the graph has it mapped
    cache.write_bytes(data)
    assert equal(first, load_graph(**arguments)) and len(readings) == 6
    load_graph(**arguments)
    assert len(readings) == 6


@pytest.mark.parametrize("change", ["date", "copy", "new file"])
def test_the_same_content_is_not_read_again(arguments, readings, tmp_path, change):
    first = load_graph(**arguments)
    if change == "date":
        os.utime(tmp_path / "valid", (1, 1))
    elif change == "copy":
        arguments["path"] = shutil.copytree(tmp_path, tmp_path / "elsewhere")
    else:
        content = (tmp_path / "train").read_bytes()
        (tmp_path / "train").unlink()
        (tmp_path / "train").write_bytes(content)
    assert equal(first, load_graph(**arguments)) and len(readings) == 3


def test_what_changes_while_it_is_read_is_not_kept(arguments, tmp_path, monkeypatch):
    genuine, once = text.read_name_triples, []

    def changing(path, *rest):
        genuine(path, *rest)
        if path.name == "test" and not once:
            once.append(path)
            lines = (tmp_path / "train").read_bytes().splitlines(keepends=True)
            (tmp_path / "train").write_bytes(b"".join(reversed(lines)))

    monkeypatch.setattr(text, "read_name_triples", changing)
    graph = load_graph(**arguments)
    assert once and not cache_files(tmp_path)
    assert equal(graph, load_graph(**{**arguments, "cache": False}))


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call, does, says", [("access", lambda *_: False, "is not writable"),
                                              ("posix_fallocate", full, "No space left")])
def test_what_cannot_be_written_is_only_logged(arguments, tmp_path, caplog, monkeypatch, call, does, says):
    monkeypatch.setattr(parsed.os, call, does)
    with caplog.at_level(logging.INFO, "dglke_frugal.data"):
        graph = load_graph(**arguments)
    assert len(graph.train) == 500 and not cache_files(tmp_path)
    assert says in caplog.text


def test_damage_leaves_no_cache(arguments, tmp_path):
    (tmp_path / "test").write_text("a\tb\n")
    with pytest.raises(InputError, match="test, line 1"):
        load_graph(**arguments)
    assert not cache_files(tmp_path)


def test_small_graphs_are_not_cached_unasked(arguments, tmp_path, monkeypatch):
    load_graph(**{**arguments, "cache": None})
    assert not cache_files(tmp_path)
    monkeypatch.setattr(parsed, "WORTHWHILE_BYTES", 100)
    load_graph(**{**arguments, "cache": None})
    assert len(cache_files(tmp_path)) == 1


def test_a_folder_of_its_own(arguments, tmp_path):
    folder = tmp_path / "caches"
    folder.mkdir()
    load_graph(**{**arguments, "cache": folder})
    assert len(cache_files(folder)) == 1 and not cache_files(tmp_path)
    graph = load_graph(**{**arguments, "cache": folder})
    graph.train.head[0] = 7  # private memory: the file keeps what it has
    assert equal(load_graph(**{**arguments, "cache": folder}), load_graph(**{**arguments, "cache": False}))


def test_any_name(arguments, tmp_path):
    load_graph(**{**arguments, "dataset": "../my graph/" + "x" * 300})
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".frugal"]) == 1
