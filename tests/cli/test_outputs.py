"""No command writes over an input, a name map, or a file of a run; each may write over its own earlier output."""

import json
import os

import pytest

from dglke_frugal.cli import emb_sim, evaluate, export, predict, report, split
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.errors import InputError
from dglke_frugal.files import check_output
from dglke_frugal.inference.run import Run

RUN = "runs/DistMult_g_0"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "data").mkdir()
    rows = [f"e{i % 9}\tr{i % 2}\te{(i * i + 1) % 9}\n" for i in range(40)]
    (folder / "data" / "train.txt").write_text("".join(rows))
    for name in ("valid", "test"):
        (folder / "data" / f"{name}.txt").write_text("".join(rows[:3]))
    (folder / "ids").write_text("1\n")
    dglke_train(["--dataset", "g", "--data_path", str(folder / "data"), "--format", "raw_udd_hrt", "--data_files",
                 "train.txt", "valid.txt", "test.txt", "--model_name", "DistMult", "--hidden_dim", "4", "--max_step",
                 "3", "--batch_size", "8", "--neg_sample_size", "4", "--save_path", str(folder / "runs")])
    os.symlink(RUN + "/result.json", folder / "symbolic")
    os.link(folder / RUN / "config.json", folder / "hard")
    return folder


@pytest.fixture(autouse=True)
def inside(trained, monkeypatch):
    monkeypatch.chdir(trained)


WRITE = {
    "predict": lambda path: predict.main(["--model_path", RUN, "--format", "h_*_*", "--data_files", "ids", "--topK",
                                          "2", "--output", path]),
    "emb_sim": lambda path: emb_sim.main(["--emb_file", f"{RUN}/g_DistMult_entity.npy", "--format", "l_*",
                                          "--data_files", "ids", "--output", path]),
    "eval": lambda path: evaluate.main(["--model_path", RUN, "--json", path]),
    "report": lambda path: report.main([RUN, "--out", path]),
    "export": lambda path: export.main([RUN, path]),
    "split": lambda path: split.main(["data/train.txt", "--out", f"divided {path.replace('/', ' ')}", "--json", path])}
OTHERS = ["ids", "data/train.txt", "data/entities.tsv", "symbolic", "hard",
          *(f"{RUN}/{name}" for name in ("config.json", "config.yaml", "result.json", "entities.tsv", "relations.tsv",
                                         "metrics.jsonl", "g_DistMult_entity.npy"))]


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, command, *arguments):
    with pytest.raises(SystemExit) as stopped:
        command(*arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1
    return error


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("command", WRITE)
def test_files_of_others_stay(trained, capsys, command, path):
    before = snapshot(trained)
    error = refused(capsys, WRITE[command], path)
    assert path in error and ("is there already" in error or "would be taken for a file of the run" in error)
    assert snapshot(trained) == before


@pytest.mark.parametrize("command", WRITE)
def test_an_output_may_be_written_again(trained, command):
    for name in ("first", "second"):
        if command == "split":
            WRITE[command](f"again {command}")
            (trained / f"divided again {command}").rename(trained / f"{command} {name}")
        else:
            WRITE[command](f"again {command}")
    (trained / "empty").write_bytes(b"")
    WRITE[command]("empty")
    assert (trained / "empty").stat().st_size
    (trained / "empty").unlink()


def test_tensors_of_others_stay(trained, capsys):
    """A file of safetensors that export has not written, such as a model of transformers."""
    header = b'{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (trained / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    before = snapshot(trained)
    assert "is there already" in refused(capsys, WRITE["export"], "model.safetensors") and snapshot(trained) == before
    (trained / "model.safetensors").unlink()


def test_both_searches_have_one_default_output():
    WRITE["predict"]("result.tsv")
    WRITE["emb_sim"]("result.tsv")
    WRITE["predict"]("result.tsv")


@pytest.mark.parametrize("folder", [RUN, "data", "data/../data"])
def test_tables_as_text_never_take_the_place_of_name_maps(trained, capsys, folder):
    before, names = snapshot(trained), list(Run.load(RUN).entity_names)
    error = refused(capsys, export.main, [RUN, folder, "--format", "tsv"])
    assert "entities.tsv" in error and snapshot(trained) == before and list(Run.load(RUN).entity_names) == names
    export.main([RUN, "tables", "--format", "tsv"])
    export.main([RUN, "tables", "--format", "tsv"])


@pytest.mark.parametrize("name", ["entities.tsv", "result.json"])
def test_no_file_comes_to_be_that_a_run_takes_for_its_own(tmp_path, name):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="would be taken for a file of the run"):
        check_output(tmp_path / name, b"")
    (tmp_path / "elsewhere").mkdir()
    check_output(tmp_path / "elsewhere" / name, b"x")


def test_what_is_reported_of_a_split_does_not_take_the_place_of_a_part(trained, capsys):
    error = refused(capsys, split.main, ["data/train.txt", "--out", "parts", "--json", "parts/train.tsv"])
    assert "parts/train.tsv is there already" in error
    assert (trained / "parts" / "train.tsv").read_text().startswith("e0\t")


@pytest.mark.parametrize("path", ["no/such", "data", "data/train.txt/below"])
@pytest.mark.parametrize("command", [name for name in WRITE if name != "export"])
def test_a_place_that_cannot_be_written_ends_a_command_before_its_work(trained, capsys, monkeypatch, command, path):
    """Which may take hours; export and its formats need no work that would be lost."""
    for module, work in (("evaluation", "evaluate"), ("inference.completion", "best_triples"),
                         ("inference.similarity", "most_similar"), ("report.page", "make_page"),
                         ("data.splitting", "divide")):
        monkeypatch.setattr(f"dglke_frugal.{module}.{work}", lambda *_, **__: pytest.fail("the work was done"))
    before = snapshot(trained)
    error = refused(capsys, WRITE[command], path)
    assert f"cannot write {path}: " in error and snapshot(trained) == before


def test_an_output_may_lie_in_the_folder_that_the_command_makes(trained):
    split.main(["data/train.txt", "--out", "made", "--json", "made/report.json"])
    assert (trained / "made" / "report.json").stat().st_size
    with pytest.raises(InputError, match="cannot write new/report.json: No such file"):
        check_output("new/report.json", b"x", made="other")


def test_standard_output_and_devices_are_written(capfd):
    WRITE["predict"]("/dev/stdout")
    assert capfd.readouterr().out.startswith("head\trel\ttail\tscore\n")
    for command, key in (("eval", "metrics"), ("split", "splits")):
        WRITE[command]("/dev/stdout")
        written = capfd.readouterr()
        assert key in json.loads(written.out) and written.err
    WRITE["export"]("/dev/null")
