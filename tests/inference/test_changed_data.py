"""dglke_eval notices that the data are not those of the training."""

import json
import re
import shutil

import pytest
from small_graph import write_graph

from dglke_frugal.cli.evaluate import main as evaluate
from dglke_frugal.cli.train import main as train
from dglke_frugal.data import load_graph
from dglke_frugal.data.fingerprint import Fingerprint

UDD = ["--format", "udd_hrt", "--data_files", "entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"]
RAW = ["--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]
RUN = ["--dataset", "mine", "--model_name", "DistMult", "--hidden_dim", "8", "--batch_size", "8", "--neg_sample_size",
       "4", "--max_step", "3", "--seed", "1"]


@pytest.fixture
def data(tmp_path):
    return write_graph(tmp_path / "data")


def swap_lines(path, first, second):
    lines = path.read_text().splitlines(keepends=True)
    lines[first], lines[second] = lines[second], lines[first]
    path.write_text("".join(lines))


def add(path, line):
    path.write_text(path.read_text() + line)


CHANGES = {
    "a triple more": (UDD, lambda d: add(d / "train.txt", "1\t1\t1\n"), "20 training triples then and 21 now"),
    "another order": (UDD, lambda d: swap_lines(d / "train.txt", 2, 3), "as many training triples .* another order"),
    "an entity more": (UDD, lambda d: add(d / "entities.tsv", "12\te12\n"), "12 entities then and 13 now"),
    "names swapped": (UDD, lambda d: (d / "entities.tsv").write_text(
        (d / "entities.tsv").read_text().replace("e1\n", "x\n").replace("e2\n", "e1\n")), "other names of entities"),
    "raw: other names": (RAW, lambda d: [(d / f"{split}.txt").write_text((d / f"{split}.txt").read_text().replace(
        "\t1\t", "\tx\t")) for split in ("train", "valid", "test")], "other names of relations"),
    "raw: an entity more in the test": (RAW, lambda d: add(d / "test.txt", "99\t1\t1\n"),
                                        "12 entities then and 13 now")}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("trainer", ["native", "dglke"])
def test_changed_data_are_refused(data, tmp_path, capsys, what, trainer):
    flags, change, says = CHANGES[what]
    train([*RUN, *flags, "--data_path", str(data), "--save_path", str(tmp_path / "runs"), "--trainer", trainer])
    (run,) = (tmp_path / "runs").iterdir()
    evaluate(["--model_path", str(run)])
    shutil.copytree(data, tmp_path / "copy")
    evaluate(["--model_path", str(run), "--data_path", str(tmp_path / "copy")])  # the same data elsewhere
    capsys.readouterr()
    change(data)
    with pytest.raises(SystemExit) as stopped:
        evaluate(["--model_path", str(run)])
    messages = capsys.readouterr()
    assert stopped.value.code == 2 and "average" not in messages.out and messages.err.count("\n") == 1
    assert re.search(f"not those of the training of .*: .*{says}", messages.err)
    if flags is UDD and "entity more" not in what:
        evaluate(["--model_path", str(run), "--other_data"])
        assert "average MRR" in capsys.readouterr().out


def test_a_fingerprint_is_that_of_the_content(data):
    def of(**options):
        return Fingerprint.of(load_graph("mine", data, "udd_hrt", UDD[3:], **options))

    first = of()
    assert of(cache=True) == of(cache=True) == first
    assert Fingerprint.of_mapping(json.loads(json.dumps(first.to_dict()))) == first
    assert first.difference(Fingerprint()) == first.difference(Fingerprint.of_mapping("?")) == ""
