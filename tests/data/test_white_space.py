"""One rule for white space in names: it belongs to them, but for that at the two ends of a line of triples."""

import sys

import numpy as np
import pytest
from data import reader_oracle

from dglke_frugal.cli import emb_sim, export, predict, split
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.data import load_graph, text
from dglke_frugal.data.name_maps import white_space_lines
from dglke_frugal.errors import InputError
from dglke_frugal.inference.lists import write_table
from dglke_frugal.inference.run import Run

# What str.strip() takes for white space, but for what ends lines and separates the columns of maps, and characters that
# look like it or that other programs take for the end of a line.
SPACES = [chr(code) for code in range(1, sys.maxunicode + 1) if chr(code).isspace() and chr(code) not in "\t\n\r"]
LIKE_SPACES = ["\u200b", "\u180e", "\ufeff", "\u2060"]
PLACES = [(0, "{0}n"), (1, "n{0}m"), (2, "n{0}"), (3, "{0}n{0}")]


def odd_rows():
    """For each of the characters, in each column, at each place of a name, a triple."""
    assert len(SPACES) > 20 and {"\x1c", "\x1f", "\x85", "\xa0", "\u2028", "\u3000"} < set(SPACES)
    for column in range(3):
        for number, space in enumerate(SPACES + LIKE_SPACES):
            for place, shape in PLACES:
                if space == "\ufeff" and column == 0 and place in (0, 3):
                    continue  # refused at the start of a line
                row = [f"a{number % 7}", f"r{number % 3}", f"b{number % 5}"]
                row[column] = shape.format(space)
                yield row


@pytest.fixture(params=["tab", "comma", "words"])
def delimiter(request):
    return {"tab": "\t", "comma": ",", "words": " :: "}[request.param]


@pytest.fixture(params=[3, 4], ids=["three columns", "four columns"])
def file(request, delimiter, tmp_path):
    rows = [[*row, f"source {i}"][: request.param] for i, row in enumerate(odd_rows())]
    path = tmp_path / "odd.tsv"
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
    return path


def graph_of(path, delimiter):
    return load_graph("odd", path.parent, "raw_udd_hrt", [path.name], delimiter)


def test_triples_are_read_as_dgl_ke_reads_them(file, delimiter):
    ((train,), entities, relations) = reader_oracle.read_raw([file], "hrt", delimiter)
    graph = graph_of(file, delimiter)
    assert list(graph.entity_names) == entities and list(graph.relation_names) == relations
    for column, expected in zip(graph.train, train):
        np.testing.assert_array_equal(column, expected)


def test_trained_names_are_found_and_written_as_they_are(file, delimiter, tmp_path):
    dglke_train(["--dataset", "odd", "--data_path", str(tmp_path), "--format", "raw_udd_hrt", "--data_files", file.name,
                 f"--delimiter={delimiter}", "--model_name", "DistMult", "--hidden_dim", "2", "--batch_size", "8",
                 "--neg_sample_size", "2", "--max_step", "2", "--save_path", str(tmp_path / "runs")])
    folder = tmp_path / "runs" / "DistMult_odd_0"
    graph, run = graph_of(file, delimiter), Run.load(folder)
    assert list(run.entity_names) == list(graph.entity_names)
    asked = [name for name in graph.entity_names if name != name.strip()][:40]
    (tmp_path / "heads").write_text("a0\n" + "\n".join(asked) + "\n", encoding="utf-8", newline="\n")
    out = tmp_path / "found.tsv"
    predict.main(["--model_path", str(folder), "--format", "h_*_*", "--data_files", str(tmp_path / "heads"),
                  "--raw_data", "--exec_mode", "batch_head", "--topK", "1", "--output", str(out)])
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert [row[0] for row in rows] == ["a0", *asked] and {row[2] for row in rows} <= set(graph.entity_names)
    emb_sim.main(["--mfile", str(folder / "entities.tsv"), "--emb_file", str(folder / "odd_DistMult_entity.npy"),
                  "--format", "l_*", "--data_files", str(tmp_path / "heads"), "--raw_data", "--exec_mode", "batch_left",
                  "--topK", "1", "--output", str(out)])
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert [row[0] for row in rows] == ["a0", *asked]
    export.main([str(folder), str(tmp_path / "tables"), "--format", "tsv"])
    written = (tmp_path / "tables" / "entities.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert [line.split("\t")[0] for line in written] == list(graph.entity_names)


@pytest.mark.parametrize("where", [0, 1, 70000])
def test_a_byte_order_mark_at_a_line_is_refused(tmp_path, where):
    """Files that begin with one are joined by programs that know nothing of it."""
    lines = [f"e{i}\tr\te{i + 1}\n" for i in range(300000)]
    lines[where] = "\ufeff" + lines[where]
    (tmp_path / "odd.tsv").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=f"line {where + 1} begins with a byte order mark"):
        graph_of(tmp_path / "odd.tsv", "\t")


def test_a_byte_order_mark_is_refused_where_a_block_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 16)
    (tmp_path / "odd.tsv").write_text("aaaa\tr\tbbbbbbbb\n\ufeffa\tr\tb\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2 begins with a byte order mark"):
        graph_of(tmp_path / "odd.tsv", "\t")


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb"])
def test_a_name_that_would_be_several_fields_is_not_written(tmp_path, name):
    with pytest.raises(InputError, match="has a tab or a line end in it"):
        write_table(tmp_path / "out.tsv", ("left", "right", "score"), ([name], ["b"], [0.5]))
    assert not (tmp_path / "out.tsv").exists()


def test_lists_of_white_space(tmp_path):
    path = tmp_path / "list"
    path.write_bytes(b" \n\xef\xbb\xbfa\r\n\x1c\n\xe2\x80\xa8\n \n\n\r\n")
    assert text.read_list(path) == [" ", "\ufeffa", "\x1c", "\u2028", " "]


@pytest.mark.parametrize("names, pairs", [(["a", "b "], 0), (["a", "a "], 1), ([" a", "a\u2028"], 1),
                                          (["\u3042", "\u3042\u3000", "\xa0\u3042"], 2)])
def test_names_told_apart_by_white_space_are_counted(tmp_path, names, pairs, capsys):
    rows = "".join(f"x\t{name}\ty\tz\n" for name in names)
    (tmp_path / "odd.tsv").write_text(rows, encoding="utf-8")
    graph = graph_of(tmp_path / "odd.tsv", "\t")
    assert list(graph.relation_names) == names
    messages = white_space_lines(graph)
    assert len(messages) == bool(pairs) and all(f"{pairs} of the names of relations" in line for line in messages)
    split.main([str(tmp_path / "odd.tsv"), "--valid", "0", "--test", "0", "--out", str(tmp_path / "out")])
    assert ("differ only in white space" in capsys.readouterr().out) == bool(pairs)


QUOTED = {"CSV": (",", '"Smith, John",born in,Paris', 1), "CSV, the tail": (",", 'John,born in,"Paris, Texas"', 3),
          "CSV with quotes in it": (",", '"Smith, ""J""",born in,Paris', 1), "semicolon": (";", 'a;"in; or on";b', 2),
          "N-Triples": (" ", '<urn:a> <urn:name> "John Smith"@en .', 3),
          "N-Triples with quotes in it": (" ", '<urn:a> <urn:name> "John \\"J\\" Smith" .', 3)}


@pytest.mark.parametrize("case", QUOTED)
def test_names_cut_within_quotes_are_refused(tmp_path, case):
    delimiter, line, column = QUOTED[case]
    (tmp_path / "odd.tsv").write_text(f"{delimiter.join('arb')}\n{line}\n")
    with pytest.raises(InputError, match=f"line 2, column {column}: .* ends within quotation marks, as in CSV or"):
        graph_of(tmp_path / "odd.tsv", delimiter)


@pytest.mark.parametrize("delimiter, line", [(",", '"a",r,"b"'), (",", 'a,r,b,"some, source"'),
                                             (",", '5" disk,r,6" disk,x'), (",", '"a,r,b'), (",", '"a,r,b,x'),
                                             ("\t", '"a\tr\tb\tsource "x'), (" ", '<urn:a> <urn:r> "b"@en .'),
                                             (" ", "<urn:a> <urn:r> <urn:b> ."), (",", "'a,r,b',x")])
def test_other_quotes_are_names(tmp_path, delimiter, line):
    (tmp_path / "odd.tsv").write_text(f"{line}\n")
    head, relation, tail = line.split(delimiter)[:3]
    graph = graph_of(tmp_path / "odd.tsv", delimiter)
    assert (list(graph.entity_names), list(graph.relation_names)) == ([head, tail], [relation])
