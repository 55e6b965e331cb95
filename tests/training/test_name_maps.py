"""A raw_udd run keeps the names of its ids, and writes over nothing that is not its own."""

import json
import os
import random
import shutil
import tempfile

import numpy as np
import pytest

import dglke_frugal
from dglke_frugal.cli.predict import main as predict
from dglke_frugal.cli.train import main
from dglke_frugal.errors import InputError

FLAGS = ["--dataset", "mine", "--format", "raw_udd_hrt", "--model_name", "DistMult", "--hidden_dim", "8",
         "--batch_size", "8", "--neg_sample_size", "4", "--max_step", "3", "--seed", "1"]
MAPS = ("entities.tsv", "relations.tsv")


def write_triples(path, prefix, seed=0):
    chance = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    triples = [(f"{prefix}{chance.randrange(20)}", f"likes{chance.randrange(3)}", f"{prefix}{chance.randrange(20)}")
               for _ in range(80)]
    path.write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")


def names_in_order(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return list(dict.fromkeys(name for h, _, t in rows for name in (h, t))), list(dict.fromkeys(r for _, r, _ in rows))


def train(tmp_path, *flags, file="train.txt", data="data"):
    """Trains on tmp_path / data and returns the run's folder."""
    runs = tmp_path / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    main([*FLAGS, "--data_path", str(tmp_path / data), "--data_files", file, "--save_path", str(runs),
          *map(str, flags)])
    (folder,) = set(runs.iterdir()) - before
    return folder


@pytest.mark.parametrize("trainer", [[], ["--trainer", "dglke"], ["--num_proc", "2"]], ids=["native", "dglke", "ranks"])
def test_an_earlier_run_keeps_its_names(tmp_path, capsys, trainer):
    train_file = tmp_path / "data" / "train.txt"
    expected, runs = [], []
    for prefix in ("a", "b"):
        write_triples(train_file, prefix, seed=len(runs))
        expected.append(names_in_order(train_file))
        runs.append(train(tmp_path, *trainer))
    assert "relations.tsv are not of this run and stay as they are" in capsys.readouterr().out
    for (entities, relations), folder in zip(expected, runs):
        run = dglke_frugal.load(folder)
        assert list(run.entity_names) == entities and list(run.relation_names) == relations
        assert {answer.name for answer in run.tails(entities[3], relations[0], 5)} <= set(entities)
        (tmp_path / "heads").write_text(f"{entities[3]}\n")
        predict(["--model_path", str(folder), "--format", "h_*_*", "--data_files", str(tmp_path / "heads"),
                 "--raw_data", "--output", str(tmp_path / "out.tsv")])
        assert {line.split("\t")[2] for line in (tmp_path / "out.tsv").read_text().splitlines()[1:]} <= set(entities)
    beside_data = (tmp_path / "data" / "entities.tsv").read_text()
    assert beside_data == "".join(f"{i}\t{name}\n" for i, name in enumerate(expected[0][0]))  # of the first run


def test_a_run_that_was_moved_keeps_its_names(tmp_path, monkeypatch):
    write_triples(tmp_path / "data" / "train.txt", "a")
    folder = train(tmp_path)
    expected = list(dglke_frugal.load(folder).entity_names)
    shutil.rmtree(tmp_path / "data")
    moved = folder.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "entities.tsv").write_text("0\tof another graph\n")  # here by chance
    assert list(dglke_frugal.load(moved).entity_names) == expected


@pytest.mark.parametrize("file", MAPS)
def test_an_input_is_never_written_over(tmp_path, file, capsys):
    data = tmp_path / "data" / file
    write_triples(data, "a")
    before = data.read_bytes()
    folder = train(tmp_path, file=file)
    assert data.read_bytes() == before and os.listdir(tmp_path / "data") == [file]
    assert f"{data} is not of this run and stays as it is" in capsys.readouterr().out
    assert list(dglke_frugal.load(folder).entity_names) == names_in_order(data)[0]


def test_maps_made_by_hand_stay(tmp_path):
    write_triples(tmp_path / "data" / "train.txt", "a")
    link = tmp_path / "data" / "relations.tsv"
    link.symlink_to("nowhere")
    (tmp_path / "data" / "entities.tsv").write_text("0\tby hand\n")
    train(tmp_path)
    assert (tmp_path / "data" / "entities.tsv").read_text() == "0\tby hand\n"
    assert link.is_symlink() and not link.exists()


def test_a_data_folder_that_is_only_read_trains(tmp_path, monkeypatch):
    write_triples(tmp_path / "data" / "train.txt", "a")
    genuine = tempfile.mkstemp

    def refusing(*rest, dir=None, **options):
        if os.path.samefile(dir, tmp_path / "data"):
            raise OSError(30, "Read-only file system")
        return genuine(*rest, dir=dir, **options)

    monkeypatch.setattr(tempfile, "mkstemp", refusing)
    folder = train(tmp_path)
    assert os.listdir(tmp_path / "data") == ["train.txt"]
    assert {*MAPS} <= {*os.listdir(folder)}


def test_plan_writes_nothing(tmp_path):
    from dglke_frugal.cli.plan import main as plan

    write_triples(tmp_path / "data" / "train.txt", "a")
    plan([*FLAGS, "--data_path", str(tmp_path / "data"), "--data_files", "train.txt"])
    assert os.listdir(tmp_path / "data") == ["train.txt"]


def test_names_keep_the_spaces_around_them(tmp_path):
    """A delimiter of its own lets names begin and end with spaces; "a" and "a " are two entities, as in DGL-KE."""
    file = tmp_path / "data" / "train.txt"
    file.parent.mkdir()
    file.write_text("a , likes ,b\na, likes , c\nb ,knows,a \nc,knows,a\n" * 5)
    folder = train(tmp_path, "--delimiter", ",")
    assert list(dglke_frugal.load(folder).entity_names) == ["a ", "b", "a", " c", "b ", "c"]


def test_a_resumed_run_refuses_other_names(tmp_path, refused):
    """The ids of a graph whose entities have other names are the same; what they mean is not."""
    file = tmp_path / "data" / "train.txt"
    write_triples(file, "a")
    folder = train(tmp_path, "--checkpoint_interval", 3)
    (folder / "result.json").unlink()
    write_triples(file, "b")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with refused("other names of entities"):
        main(["--resume", str(folder), "--max_step", "5"])
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_triples(file, "a")
    main(["--resume", str(folder), "--max_step", "5"])


def test_a_run_without_maps_gets_them_when_it_goes_on(tmp_path):
    """As of an earlier version, which wrote them next to the data alone."""
    write_triples(tmp_path / "data" / "train.txt", "a")
    folder = train(tmp_path, "--checkpoint_interval", 3)
    kept = [(folder / name).read_bytes() for name in MAPS]
    for name in MAPS:
        (folder / name).unlink()
    main(["--resume", str(folder), "--max_step", "5"])
    assert [(folder / name).read_bytes() for name in MAPS] == kept


def test_names_that_have_changed_are_noticed(tmp_path):
    write_triples(tmp_path / "data" / "train.txt", "a")
    folder = train(tmp_path)
    text = (folder / "entities.tsv").read_text().splitlines()
    text[0], text[1] = text[0][:2] + text[1][2:], text[1][:2] + text[0][2:]  # two names swapped
    (folder / "entities.tsv").write_text("\n".join(text) + "\n")
    run = dglke_frugal.load(folder)
    for ask in (lambda: run.tails(text[0][2:], 0), lambda: run.entity_names[0], lambda: run.nearest(0)[0]):
        with pytest.raises(InputError, match="entities.tsv has changed since .* was trained.*--entity_mfile"):
            ask()
    assert dglke_frugal.load(folder, entity_map=folder / "entities.tsv").entity_names[0] == text[0][2:]


def test_a_map_of_other_data_is_noticed(tmp_path):
    """A run of DGL-KE has its names next to the data, where the next run writes its own."""
    write_triples(tmp_path / "data" / "train.txt", "a")
    folder = train(tmp_path)
    (folder / "entities.tsv").unlink()
    config = json.loads((folder / "config.json").read_text())
    del config["data"]
    (folder / "config.json").write_text(json.dumps(config))
    rows = len(np.load(folder / "mine_DistMult_entity.npy"))
    (tmp_path / "data" / "entities.tsv").write_text("".join(f"{i}\tb{i}\n" for i in range(rows + 1)))
    with pytest.raises(InputError, match=f"has {rows + 1} names, but .* has {rows} rows"):
        dglke_frugal.load(folder).tails(0, 0)[0]
