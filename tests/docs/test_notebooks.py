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
def test_a_notebook_runs_and_holds_no_output(path, tmp_path, capsys):
    triples = ([0, 1], [0, 0], [3, 5])
    run = write_run(tmp_path / "run", random_model("ComplEx"), graph=dict.fromkeys(("train", "valid", "test"), triples),
                    data_path=str(tmp_path / "run"), format="udd_hrt",
                    data_files=["entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"])
    names = run_cells(path, run)
    best = names["run"].tails(0, 0, 1)[0].name
    printed = capsys.readouterr().out
    assert f"entity 0 -- relation 0 -> {best}" in printed and "tail ranks" in printed
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "clear the outputs before it is committed"
