"""Every command of DGL-KE on one machine runs to its end and writes what it should."""
import json
import re
from pathlib import Path

import numpy as np
import pytest

RAW = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]
SHORT = ["--hidden_dim", 16, "--batch_size", 256, "--neg_sample_size", 64, "--gamma", 12, "--lr", 0.1, "--max_step", 60]


@pytest.fixture(scope="module")
def train(small, dglke):
    """Train for a few steps; returns the folder with the results, and the output."""

    def command(folder, *more):
        output = dglke("train", ["--data_path", small, *RAW, *SHORT, "--save_path", folder, *more], small)
        (result,) = Path(folder).iterdir()
        return result, output

    return command


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    folder, output = train(tmp_path_factory.mktemp("trained"), "--model_name", "TransE_l2", "-adv", "--test")
    return folder, metrics(output)


def metrics(output):
    found = dict(re.findall(r"Test average (\S+?) ?: (\S+)", output))
    assert set(found) == {"MRR", "MR", "HITS@1", "HITS@3", "HITS@10"}, output[-2000:]
    return {name: float(value) for name, value in found.items()}


def test_same_seed_gives_the_same_bytes(python, small, trained, tmp_path):
    arguments = ["--data_path", small, *RAW, *SHORT, "--save_path", tmp_path, "--model_name", "TransE_l2", "-adv"]
    arguments = [str(argument) for argument in arguments] + ["--test"]
    output = python(f"from dglke_frugal import vanilla\nvanilla.run('train', {arguments}, seed=7)", small)
    (again,) = tmp_path.iterdir()
    names = {file.name for file in trained[0].iterdir()}
    assert names == {"small_TransE_l2_entity.npy", "small_TransE_l2_relation.npy", "config.json"}
    for name in names:
        assert (again / name).read_bytes() == (trained[0] / name).read_bytes(), name
    assert metrics(output) == trained[1]


def test_two_processes_train_one_table_and_test_together(train, trained, tmp_path):
    folder, output = train(
        tmp_path, "--model_name", "TransE_l2", "-adv", "--test", "--valid", "--eval_interval", 30, "--num_proc", 2,
        "--log_interval", 30, "--rel_part")
    losses = {
        (process, step): float(loss)
        for process, step, loss in re.findall(r"\[proc (\d)\]\[Train\]\((\d+)/60\) average loss: (\d+\.\d+)", output)}
    for process in "01":
        assert losses[process, "60"] < losses[process, "30"]
    assert metrics(output)["MR"] != trained[1]["MR"]
    assert np.isfinite(np.load(folder / "small_TransE_l2_entity.npy")).all()


@pytest.mark.parametrize("flags", [
    ["--model_name", "RotatE", "-de", "--neg_deg_sample", "--async_update"],
    ["--model_name", "TransR", "--valid", "--eval_interval", 60]], ids=["rotate", "transr"])
def test_other_modes_train(train, tmp_path, flags):
    folder, output = train(tmp_path, *flags, "--log_interval", 20)
    losses = [float(loss) for loss in re.findall(r"average loss: (\d+\.\d+)", output)]
    assert len(losses) == 3 and losses[2] < losses[0]
    assert json.loads((folder / "config.json").read_text())["emb_size"] == 16


def test_edge_weights_are_read_and_matter(train, tmp_path):
    """dglke 0.1.2 reads them by numpy.float, which no current numpy has."""
    weighted = [name.replace(".txt", "_weighted.txt") for name in RAW[-3:]]
    weighted = ["--data_files", *weighted, "--model_name", "DistMult"]
    folder, _ = train(tmp_path / "weighted", *weighted, "--has_edge_importance")
    plain, _ = train(tmp_path / "plain", *weighted)
    name = "small_DistMult_entity.npy"
    assert np.load(folder / name).shape == np.load(plain / name).shape
    assert (folder / name).read_bytes() != (plain / name).read_bytes()


def test_eval_reads_what_train_saved(dglke, small, trained):
    output = dglke("eval", ["--data_path", small, *RAW, "--model_name", "TransE_l2", "--hidden_dim", 16,
                            "--model_path", trained[0]], small)
    assert metrics(output) == trained[1]


def oracle(folder, heads, relations, tails):
    """Scores (heads, relations, tails) of the trained TransE_l2 without its margin, as dglke_predict counts."""
    entity, relation = (np.load(folder / f"small_TransE_l2_{kind}.npy") for kind in ("entity", "relation"))
    translated = np.float64(entity[heads][:, None, None]) + relation[relations][None, :, None]
    difference = translated - entity[tails][None, None]
    return -np.linalg.norm(difference, axis=-1)


def table(path):
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [tuple(int(cell) for cell in row[:-1]) for row in rows], np.array([float(row[-1]) for row in rows])


@pytest.mark.parametrize("mode, axis", [("all", None), ("batch_head", 0), ("batch_rel", 1), ("batch_tail", 2)])
def test_predict_finds_the_best(dglke, trained, tmp_path, mode, axis):
    """In dglke 0.1.2 each of these fails on PyTorch 1.5 or later, by an index that is no integer."""
    ids = np.array([3, 1, 8, 5]), np.array([2, 0, 4]), np.array([9, 40, 41, 7, 6])
    for name, list_ in zip("hrt", ids):
        (tmp_path / name).write_text("".join(f"{id_}\n" for id_ in list_))
    dglke("predict", ["--model_path", trained[0], "--format", "h_r_t", "--data_files", "h", "r", "t",
                      "--exec_mode", mode, "--topK", 4, "--output", "best.tsv"], tmp_path)
    scores = oracle(trained[0], *ids)
    groups = [scores] if axis is None else list(np.moveaxis(scores, axis, 0))
    expected = np.concatenate([np.sort(group, axis=None)[::-1][:4] for group in groups])
    triples, found = table(tmp_path / "best.tsv")
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    of = [oracle(trained[0], [h], [r], [t]).item() for h, r, t in triples]
    np.testing.assert_allclose(of, found, rtol=1e-4)


def test_similar_entities_are_found(dglke, trained, tmp_path):
    embedding = trained[0] / "small_TransE_l2_entity.npy"
    (tmp_path / "left").write_text("5\n17\n")
    dglke("emb_sim", ["--emb_file", embedding, "--format", "l_*", "--data_files", "left", "--exec_mode", "all",
                      "--sim_func", "cosine", "--topK", 6, "--output", "best.tsv"], tmp_path)
    vectors = np.load(embedding).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = vectors[[5, 17]] @ vectors.T
    pairs, found = table(tmp_path / "best.tsv")
    np.testing.assert_allclose(found, np.sort(similarity, axis=None)[::-1][:6], atol=1e-5)
    np.testing.assert_allclose([vectors[a] @ vectors[b] for a, b in pairs], found, atol=1e-5)


def test_partitions_share_out_the_edges(dglke, small):
    (small / "small").mkdir(exist_ok=True)
    output = dglke("partition", ["--data_path", small, *RAW, "-k", 3], small)
    ids = {row.split("\t")[1]: int(row.split("\t")[0]) for name in ("entities.tsv", "relations.tsv")
           for row in (small / name).read_text().splitlines()}
    lines = (small / "train.txt").read_text().splitlines()
    whole = sorted(tuple(ids[name] for name in line.split("\t")) for line in lines)
    edges, cut = [], 0
    for part in range(3):
        folder = small / "small" / f"partition_{part}"
        nodes, owner = (np.loadtxt(folder / name, dtype=int) for name in ("local_to_global.txt", "partition_book.txt"))
        triples = np.loadtxt(folder / "train.txt", dtype=int, delimiter="\t")
        head, tail = nodes[triples[:, 0]], nodes[triples[:, 2]]
        assert (owner[tail] == part).all()
        cut += (owner[head] != part).sum()
        edges += zip(head.tolist(), triples[:, 1].tolist(), tail.tolist())
    assert sorted(edges) == whole
    assert 0 < cut < len(whole) / 2
    assert f"{len(whole)} edges in the graph and {cut} edge cuts for 3 partitions" in output


def test_convert_writes_ids(dglke, small, tmp_path):
    dglke("convert", ["--data_path", small, "--data_files", *RAW[-3:], "--input_format", "raw_udd_hrt",
                      "--output_format", "udd_htr", "--output_path", tmp_path], tmp_path)
    names = {kind: dict(row.split("\t") for row in (small / f"{kind}.tsv").read_text().splitlines())
             for kind in ("entities", "relations")}
    for given, written in (("train.txt", "train_output.txt"), ("test.txt", "test_output.txt")):
        back = [(names["entities"][h], names["relations"][r], names["entities"][t])
                for h, t, r in (line.split("\t") for line in (tmp_path / written).read_text().splitlines())]
        assert back == [tuple(line.split("\t")) for line in (small / given).read_text().splitlines()]
