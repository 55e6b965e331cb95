"""What a run says of its test is what an evaluation of its saved tables says, whatever ranked."""
import json

import pytest
from devices import CUDA

import dglke_frugal
from dglke_frugal.data import load_graph
from dglke_frugal.evaluation import KnownTriples, evaluate


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("flags", [["--flush", "none"], ["--flush", "p2f"], ["--model_name", "RotatE", "-de"]])
def test_the_test_of_a_run(runs, graphs, device, flags):
    gpu = ["--gpu", 0] if device == "cuda" else []
    folder = runs("--max_step", 40, "--valid", "--eval_interval", 20, "--test", *flags, *gpu)
    graph = load_graph("small", graphs / "fb15k-small", "raw_udd_hrt", ["train.txt", "valid.txt", "test.txt"])
    model = dglke_frugal.load(folder).model
    expected = evaluate(model, tuple(graph.test), KnownTriples([tuple(split) for split in graph.splits.values()]))
    result = json.loads((folder / "result.json").read_text())
    assert result["test"] == expected.metrics().named()
    assert result["validation"]["step"] == 40
