"""A run that starts from another one has its rows where names agree, whatever their ids, and goes on as that one."""

import json
import shutil

import numpy as np
import pytest
from training.conftest import Runs, tables

from dglke_frugal.cli.train import main
from dglke_frugal.data import load_graph

FILES = ("train.txt", "valid.txt", "test.txt")


def by_name(folder, data, what="entity"):
    """Rows of a saved table by name."""
    graph = load_graph("small", data, "raw_udd_hrt", list(FILES))
    names = graph.entity_names if what == "entity" else graph.relation_names
    return dict(zip(names, np.load(next(folder.glob(f"*_{what}.npy")))))


@pytest.fixture
def grown(small, tmp_path):
    """The small graph with its lines in another order, so that all ids differ, and two new triples."""
    data = tmp_path / "grown"
    data.mkdir()
    for name in FILES:
        lines = (small / name).read_text().splitlines()[::-1]
        if name == "train.txt":
            lines = ["new one\tnew relation\t/m/044mz_", *lines, "/m/01sl1q\tnew relation\tanother new one"]
        (data / name).write_text("\n".join(lines) + "\n")
    return data


@pytest.mark.parametrize("flags", [[], ["--model_name", "TransR", "--hidden_dim", 8], ["--checkpoint_interval", 9]])
def test_rows_come_by_name(runs, small, grown, tmp_path, capsys, flags):
    first = runs("--max_step", 20, *flags)
    again = Runs(grown, tmp_path / "later")
    capsys.readouterr()
    second = again("--max_step", 0, "--init_from", first, *flags)
    assert ("the rows of 1,649 of 1,651 entities and 368 of 369 relations, by name, with their optimizer states"
            in capsys.readouterr().out)
    fresh = again("--max_step", 0, *flags)
    for what, new in (("entity", {"new one", "another new one"}), ("relation", {"new relation"})):
        old, now, start = by_name(first, small, what), by_name(second, grown, what), by_name(fresh, grown, what)
        assert now.keys() - old.keys() == new
        for name, row in now.items():
            np.testing.assert_array_equal(row, start[name] if name in new else old[name])
    assert json.loads((second / "result.json").read_text())["init_from"] == {
        "folder": str(first), "entities": 1649, "relations": 368, "optimizer_states": True}


def test_from_itself_it_goes_on_as_if_resumed(runs):
    """Tables and optimizer states are those of the first run; only the batches begin anew."""
    first = runs("--max_step", 20)
    second = runs("--max_step", 0, "--init_from", first)
    assert tables(second) == tables(first)
    states = [{path.name: np.load(path) for path in folder.glob("optimizer/*/*_state.npy")}
              for folder in (first, second)]
    assert states[0].keys() == states[1].keys() == {"entity_state.npy", "relation_state.npy"}
    for name, state in states[0].items():
        assert state.any()
        np.testing.assert_array_equal(state, states[1][name])


def test_it_is_worth_it(runs, grown, tmp_path, capsys):
    """A few steps on the graph that has grown are better than from random rows, also without optimizer states."""
    first = runs("--max_step", 2000)
    again = Runs(grown, tmp_path / "later")

    def mrr(*flags):
        folder = again("--max_step", 20, "--test", *flags)
        return json.loads((folder / "result.json").read_text())["test"]["MRR"]

    anew, warm = mrr(), mrr("--init_from", first)
    shutil.rmtree(first / "optimizer")
    capsys.readouterr()
    assert 3 * anew < min(warm, mrr("--init_from", first))
    assert "without their optimizer states" in capsys.readouterr().out


def test_several_ranks_and_a_resumed_run(runs, capsys):
    first = runs("--max_step", 20)
    one, two = (runs("--max_step", 0, "--init_from", first, "--num_proc", ranks) for ranks in (1, 2))
    assert tables(two) == tables(one)
    capsys.readouterr()
    runs.resume(one, "--max_step", 6)
    assert "the rows of" not in capsys.readouterr().out
    assert tables(one) == tables(runs("--max_step", 6, "--init_from", first))


@pytest.mark.parametrize("change, says", [
    (["--hidden_dim", 12], "hidden_dim was 20 and is 12"),
    (["--model_name", "DistMult"], "model_name was TransE_l2 and is DistMult"),
    (["--init_from", "/nowhere"], "there is no folder /nowhere")])
def test_what_cannot_be_started_from(runs, tmp_path, refused, change, says):
    first = runs("--max_step", 2)
    flags = ["--init_from", first, *change] if "--init_from" not in change else change
    with refused(says):
        runs("--max_step", 2, *flags)
    assert not (tmp_path / "runs-2").exists()


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"no numbers"), lambda path: path.unlink(),
    lambda path: path.write_bytes(path.read_bytes()[:-4]), lambda path: np.save(path, np.zeros(3, np.float32))])
def test_damaged_optimizer_states_are_reported(runs, capsys, refused, damage):
    first = runs("--max_step", 2)
    (path,) = first.glob("optimizer/*/entity_state.npy")
    damage(path)
    capsys.readouterr()
    with refused(str(path), "leave --init_from out or take another run"):
        runs("--max_step", 2, "--init_from", first)


def test_a_graph_of_other_names(runs, tmp_path, refused):
    first = runs("--max_step", 2)
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    with refused("no entity of small has a name that"):
        main(["--config", str(first / "config.yaml"), "--init_from", str(first), "--data_path", str(tmp_path),
              "--data_files", "train.txt", "--save_path", str(tmp_path / "other")])


def test_names_of_another_run_are_noticed(runs, tmp_path, refused):
    first = runs("--max_step", 2)
    maps = json.loads((first / "config.json").read_text())
    (tmp_path / "few.tsv").write_text("0\ta\n1\tb\n")
    (first / "config.json").write_text(json.dumps({**maps, "emap_file": str(tmp_path / "few.tsv")}))
    with refused("--init_from finds rows by name", f"few.tsv has changed since {first} was trained"):
        runs("--max_step", 2, "--init_from", first)
