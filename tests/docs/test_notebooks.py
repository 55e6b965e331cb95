"""Every notebook in examples/ runs from its first cell to its last."""

import json
from pathlib import Path

import pytest
from evaluation.random_models import random_model

from inference.make_run import write_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_cells(path, folder):
    """Run the code cells one after the other, with `folder` in place of the run that the notebook names."""
    names = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(path), "exec"), names)
            if "folder" in names:
                names["folder"] = str(folder)
    return names


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_holds_no_output(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "clear the outputs before it is committed"


def test_a_data_frame_becomes_answers(tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[tables]')")
    monkeypatch.chdir(tmp_path)
    path = EXAMPLES / "from_a_data_frame.ipynb"
    code = [line for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
            for line in "".join(cell["source"]).splitlines()]
    assert len(code) <= 25
    names = run_cells(path, None)
    run, printed = names["run"], capsys.readouterr().out
    assert printed.startswith("ComplEx on graph: ") and "test MRR" in printed.splitlines()[0]
    assert run.metrics["MRR"] > 0.3  # of 255 people a model that knows nothing has 0.02
    answers = run.tails("person 1", "parent_of", k=3).to_pandas()
    assert list(answers.columns) == ["head", "relation", "tail", "score", "known"]
    assert isinstance(answers, pandas.DataFrame) and str(answers) in printed  # which another process has printed
    assert len(names["vectors"]) == 255 and (names["vectors"]["person 7"] == run.embedding("person 7")).all()


def test_a_run_is_asked(tmp_path, capsys):
    path = EXAMPLES / "ask_a_run.ipynb"
    triples = ([0, 1], [0, 0], [3, 5])
    run = write_run(tmp_path / "run", random_model("ComplEx"), graph=dict.fromkeys(("train", "valid", "test"), triples),
                    data_path=str(tmp_path / "run"), format="udd_hrt",
                    data_files=["entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"])
    names = run_cells(path, run)
    best = names["run"].tails(0, 0, 1)[0].name
    printed = capsys.readouterr().out
    assert f"entity 0 -- relation 0 -> {best}" in printed and "tail ranks" in printed
