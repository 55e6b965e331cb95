"""Generated graphs: a pure function of seed and number, skewed as asked, readable in every layout they are written
in."""
import numpy as np
import pytest

from dglke_frugal.data import load_graph, synthetic
from dglke_frugal.data.synthetic import SyntheticGraph, write
from dglke_frugal.errors import InputError


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def test_any_range_alone_gives_the_same(monkeypatch):
    graph = SyntheticGraph(1000, 20, 5000, 300, 200, seed=4)
    whole = graph.triples(0, 5500)
    for begin, end in ((0, 1), (17, 1234), (5499, 5500)):
        assert equal(graph.triples(begin, end), (column[begin:end] for column in whole))
    memory = graph.in_memory()
    monkeypatch.setattr(synthetic, "BLOCK", 77)
    again = graph.in_memory()
    assert list(memory.splits) == ["train", "valid", "test"]
    for split, (begin, end) in graph.splits.items():
        assert equal(memory.splits[split], (column[begin:end] for column in whole))
        assert equal(memory.splits[split], again.splits[split])
    assert not equal(SyntheticGraph(1000, 20, 5000, seed=5).triples(0, 100), graph.triples(0, 100))


def test_bits_are_those_of_splitmix64():
    def reference(counter):
        mask = 2**64 - 1
        z = counter * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    assert reference(1) == 0xE220A8397B1DCDAF  # the first output of SplitMix64 for seed 0, as published
    counters = np.array([0, 1, 2, 2**63, 2**64 - 1], np.uint64)
    assert synthetic._mix(counters).tolist() == [reference(int(c)) for c in counters]


@pytest.mark.parametrize("n_entities, n_relations", [(2, 1), (3, 2), (1000, 7), (86_054_151, 14_824), (2**31, 3)])
def test_ids_in_range_and_no_loops(n_entities, n_relations):
    triples = SyntheticGraph(n_entities, n_relations, 10**9).triples(10**9 - 20_000, 10**9)
    for column, count in zip(triples, (n_entities, n_relations, n_entities)):
        assert column.dtype == np.int32 and column.min() >= 0 and column.max() < count
    assert (triples.head != triples.tail).all()
    if n_entities <= 1000:
        assert len(np.unique(triples.head)) == n_entities and len(np.unique(triples.relation)) == n_relations
    else:
        assert np.median(triples.head) > n_entities / 5, "popular entities lie all over the ids"


def test_skew():
    def share_of_top(skew, top):
        graph = SyntheticGraph(4096, 5, 200_000, skew=skew).in_memory()
        degree = np.sort(np.bincount(np.concatenate([graph.train.head, graph.train.tail]), minlength=4096))[::-1]
        return degree[: int(4096 * top)].sum() / degree.sum()

    def zipf(skew, top):
        weight = np.arange(1, 4097.0) ** -skew
        return weight[: int(4096 * top)].sum() / weight.sum()

    assert share_of_top(0, 0.1) < 0.13
    for skew in (0.5, 0.75, 1.0):
        assert abs(share_of_top(skew, 0.1) - zipf(skew, 0.1)) < 0.03


@pytest.mark.parametrize("layout", synthetic.LAYOUTS)
def test_written_graph_is_read_back(tmp_path, monkeypatch, layout):
    monkeypatch.setattr(synthetic, "BLOCK", 999)
    graph = SyntheticGraph(5000, 30, 4000, 400, 300, seed=2, name="made")
    folder = write(graph, tmp_path, layout)
    if layout == "udd":
        files = ["entities.tsv", "relations.tsv", "train.tsv", "valid.tsv", "test.tsv"]
        read = load_graph("made", folder, "udd_hrt", files)
        assert read.entity_names[4999] == "e4999" and read.relation_names[29] == "r29"
    else:
        read = load_graph(layout, tmp_path)
    assert (read.n_entities, read.n_relations) == (5000, 30)
    expected = graph.in_memory().splits
    if layout == "wikikg90Mv2":
        np.testing.assert_array_equal(read.candidates["test-dev"]["hr"](), np.stack(list(expected.pop("test"))[:2], 1))
    assert list(read.splits) == list(expected)
    for split, triples in expected.items():
        assert equal(read.splits[split], triples)


def test_command(tmp_path, capsys):
    synthetic.main(["--out", str(tmp_path), "--entities", "50", "--relations", "3", "--triples", "90", "--valid", "0"])
    assert capsys.readouterr().out.strip() == str(tmp_path / "synthetic")
    assert sorted(path.name for path in (tmp_path / "synthetic").iterdir()) == [
        "entities.tsv", "relations.tsv", "test.tsv", "train.tsv"]


@pytest.mark.parametrize("options, says", [(["--entities", "1"], "entities 1"), (["--triples", "0"], "train triples 0"),
                                           (["--skew", "-1"], "skew -1.0"), (["--skew", "nan"], "skew nan"),
                                           (["--seed", "-1"], "seed -1"), (["--relations", "0"], "relations 0")])
def test_bad_options(tmp_path, refused, options, says):
    with refused(says):
        synthetic.main(["--out", str(tmp_path), *options])
    assert not list(tmp_path.iterdir())


def test_unwritable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose a writable folder"):
        write(SyntheticGraph(10, 2, 10), tmp_path / "file")
    with pytest.raises(InputError, match="unknown layout 'tsv'"):
        write(SyntheticGraph(10, 2, 10), tmp_path, "tsv")
