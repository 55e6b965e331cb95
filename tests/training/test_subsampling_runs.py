"""Runs with --subsampling: the bits of a run whose weights stand in a fourth column, whatever computes them."""

import numpy as np
import pytest
from training.conftest import Runs, tables

from dglke_frugal.data import load_graph
from dglke_frugal.training.batches.subsampling import subsampling_weights

FILES = ["--data_files", "weighted.txt", "valid_weighted.txt", "test_weighted.txt", "--has_edge_importance"]
LOSSES = {"adversarial": ["-adv"], "pairwise": ["--loss_genre", "Hinge", "-pw"], "softmax": ["--loss_genre", "Softmax"],
          "reciprocal": ["--reciprocal"], "complex": ["--model_name", "ComplEx", "--loss_genre", "Logistic"],
          "projected": ["--model_name", "TransR", "--hidden_dim", 6],
          "all": ["--model_name", "DistMult", "--loss_genre", "Softmax", "--neg_sample_size", "all"]}


@pytest.fixture(scope="module")
def weighted(small, tmp_path_factory):
    """The small graph; weigh(how, direction) writes its training triples with weights of that kind next to them."""
    folder = tmp_path_factory.mktemp("weighted")
    for path in small.iterdir():
        if path.suffix == ".txt":
            (folder / path.name).symlink_to(path.resolve())
    graph = load_graph("small", folder, "raw_udd_hrt", ["train.txt", "valid.txt", "test.txt"])

    def weigh(how, direction=0):
        weight = subsampling_weights(how, graph.train, graph.n_relations)
        weight = np.broadcast_to(weight, (2, len(graph.train)))[direction]
        lines = (folder / "train.txt").read_text().splitlines()
        (folder / "weighted.txt").write_text("".join(f"{line}\t{each:.9g}\n" for line, each in zip(lines, weight)))

    return folder, weigh


@pytest.fixture
def runs(weighted, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Runs(weighted[0], tmp_path)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_go_the_way_of_a_fourth_column(runs, weighted, loss):
    flags = ["--max_step", 12, *LOSSES[loss]]
    weighted[1]("base")
    expected = tables(runs(*flags, *FILES))
    assert tables(runs(*flags, "--subsampling", "base")) == expected
    assert tables(runs(*flags)) != expected


@pytest.mark.parametrize("store", [["--flush", "p2f", "--cache_ratio", 0.1], ["--flush", "none"]])
def test_on_a_device(runs, weighted, store):
    flags = ["--max_step", 12, "-adv", *store]
    weighted[1]("base")
    expected = tables(runs(*flags, *FILES))
    assert tables(runs.on_device("cpu", *flags, "--subsampling", "base")) == expected
    uniq = [*flags, "--subsampling", "uniq"]
    assert tables(runs.on_device("cpu", *uniq)) == tables(runs(*uniq))


def test_queries_have_weights_by_direction(runs, weighted):
    """The first step replaces tails, the second heads: from the same rows on, each is one of other weights."""
    first, second = ["--max_step", 1, "-adv"], ["--max_step", 2, "-adv"]
    weighted[1]("uniq", 0)
    one = tables(runs(*first, *FILES))
    assert tables(runs(*first, "--subsampling", "uniq")) == one
    tails = tables(runs(*second, *FILES))
    weighted[1]("uniq", 1)
    heads, found = tables(runs(*second, *FILES)), tables(runs(*second, "--subsampling", "uniq"))
    assert len({content["small_TransE_l2_entity.npy"] for content in (tails, heads, found)}) == 3


@pytest.mark.parametrize("how", ["base", "uniq"])
def test_a_resumed_run_has_the_same_bits(runs, how):
    flags = ["--subsampling", how]
    expected = tables(runs("--max_step", 30, *flags))
    folder = runs("--max_step", 13, *flags)
    assert tables(runs.resume(folder, "--max_step", 30)) == expected


@pytest.mark.parametrize("flags, says", [
    (["--has_edge_importance"], "--subsampling and --has_edge_importance both weigh triples; leave one of the two out"),
    (["--model_name", "DistMult", "--loss_genre", "Softmax", "--neg_sample_size", "all", "--labels", "kvsall"],
     "--labels kvsall puts triples together, and has no place for --subsampling")])
def test_what_does_not_go_together(runs, refused, flags, says):
    with refused(says):
        runs("--max_step", 5, "--subsampling", "base", *flags)


@pytest.mark.parametrize("chunk", [1, 5, 256])
@pytest.mark.parametrize("model", [["TransE_l2"], ["RotatE", "-de"], ["ComplEx"]])
def test_chunks_of_any_size_on_a_device(runs, model, chunk):
    flags = ["--model_name", *model, "-adv", "--max_step", 6, "--neg_chunk_size", chunk, "--neg_sample_size", 16]
    expected = tables(runs(*flags))
    assert expected != tables(runs(*flags, "--neg_chunk_size", 16))
    for store in (["--flush", "p2f", "--cache_ratio", 0.1], ["--flush", "none"]):
        assert tables(runs.on_device("cpu", *flags, *store)) == expected


def test_excluded_positives_are_a_run_of_its_own(runs):
    flags = ["--neg_chunk_size", 1, "--neg_sample_size", 32, "--exclude_positive"]
    whole = tables(runs("--max_step", 20, *flags))
    folder = runs("--max_step", 9, *flags)
    assert tables(runs.on_device("cpu", "--max_step", 20, *flags, "--flush", "p2f", "--cache_ratio", 0.1)) == whole
    assert tables(runs("--max_step", 20, *flags[:-1])) != whole
    assert tables(runs.resume(folder, "--max_step", 20)) == whole


@pytest.mark.parametrize("flags, says", [
    (["--exclude_positive", "--neg_deg_sample"], "--neg_deg_sample takes the entities of positives"),
    (["--neg_chunk_size", 0], "--neg_chunk_size is 0; give a number that is at least 1"),
    (["--model_name", "DistMult", "--loss_genre", "Softmax", "--neg_sample_size", "all", "--neg_chunk_size", 4],
     "--neg_chunk_size is of sampled negatives, and --neg_sample_size all has none")])
def test_chunks_that_there_are_not(runs, refused, flags, says):
    with refused(says):
        runs("--max_step", 5, *flags)
