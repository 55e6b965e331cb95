"""Ranking on a device: with PyTorch on the CPU, and on a GPU where there is one; table there or in host memory."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import CUDA
from evaluation.random_models import BY_RULE, random_model, random_triples

from dglke_frugal.evaluation import (SIDES, EmbeddingModel, KnownTriples, Protocol, device_ranking, evaluate,
                                      custom_model)
from dglke_frugal.evaluation import device as evaluation_device
from dglke_frugal.evaluation.best_rows import best_rows
from dglke_frugal.evaluation.device import upload
from dglke_frugal.evaluation.ranking import CandidateTable

BLOCKS = [(1 << 15, 1 << 24), (150, 1 << 12), (411, 5000)]  # rows, keys in work


@pytest.fixture(params=["cpu", CUDA])
def device(request):
    return torch.device(request.param)


@pytest.fixture(params=["there", "in host memory"])
def place(request, device):
    """Puts a model's table there."""
    if request.param == "in host memory":
        return lambda model: replace(model, device=device)
    return lambda model: replace(model, entity=upload(model.entity, device), device=device)


def in_blocks(monkeypatch, rows, keys):
    monkeypatch.setattr(device_ranking, "_ROWS", rows)
    monkeypatch.setattr(device_ranking, "_TILE", keys)


def counts(evaluation):
    return [(evaluation.compared[side].better.tolist(), evaluation.compared[side].equal.tolist()) for side in SIDES]


@pytest.mark.parametrize("name, rule", BY_RULE)
@pytest.mark.parametrize("coarse", [False, True], ids=["", "with many ties"])
def test_ranks_are_those_of_the_cpu_in_any_blocks(monkeypatch, device, place, name, rule, coarse):
    model = random_model(name, entities=411, coarse=coarse and name not in ("RotatE", "TransR"), dim=8, rule=rule)
    known = random_triples(model, 2000)
    test = tuple(column[::10] for column in known)
    for protocol in (Protocol(), Protocol(known="kept")):
        expected = counts(evaluate(model, test, KnownTriples([known]), protocol))
        for sizes in BLOCKS:
            in_blocks(monkeypatch, *sizes)
            found = counts(evaluate(place(model), test, KnownTriples([known]), protocol))
            assert found == expected


def test_an_emptied_model_ties_without_arithmetic(place):
    model = random_model("ComplEx", entities=411, dim=8)
    model.relation[::2] = 0
    known = random_triples(model, 500)
    found, expected = (evaluate(each, known, KnownTriples([known])) for each in (place(model), model))
    assert counts(found) == counts(expected)
    assert found.compared["tail"].close_calls < len(model.entity)


def test_rows_of_a_store_lie_apart(device):
    model = random_model("TransE_l2", entities=100)
    wide = np.full((100, 32), np.nan, np.float32)
    wide[:, :10] = model.entity
    known = random_triples(model, 300)
    apart = replace(model, entity=wide[:, :10], device=device)
    assert counts(evaluate(apart, known, KnownTriples([known]))) == counts(
        evaluate(model, known, KnownTriples([known])))


@pytest.mark.parametrize("name", ["TransE_l1", "TransE_l2", "DistMult", "RotatE"])
@pytest.mark.parametrize("k", [1, 9, 500])
def test_the_best_rows_are_those_of_the_cpu_in_any_blocks(monkeypatch, device, place, name, k):
    model = random_model(name, entities=300, coarse=name == "DistMult")
    vectors = model.entity[:40] + np.float32(0.25)

    def search(placed):
        table = CandidateTable.of(placed.entity, model.operation, placed.device)
        found = best_rows(model.operation, vectors, table, k, lambda keys: keys.astype(np.float32))
        best = found.best(k, found.query)
        return best.query.tolist(), best.row.tolist(), best.score.tolist()

    expected = search(model)
    for sizes in BLOCKS:
        in_blocks(monkeypatch, *sizes)
        assert search(place(model)) == expected


CODE = """
from dglke_frugal.models import TorchModel

class Product(TorchModel):
    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)
"""


def test_a_custom_model(tmp_path, monkeypatch, device, place):
    (tmp_path / "product_on_a_device.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    built_in = random_model("DistMult", entities=150, coarse=True, dim=8)
    own = EmbeddingModel("product_on_a_device:Product", 3.0, 8, built_in.entity, built_in.relation)
    known = random_triples(built_in, 300)
    try:
        for protocol in (Protocol(), Protocol(known="kept")):
            expected = counts(evaluate(built_in, known, KnownTriples([known]), protocol))
            for block in (1, 1 << 14, 1 << 20):
                monkeypatch.setitem(custom_model._BLOCK_BYTES, device.type, block)
                assert counts(evaluate(place(own), known, KnownTriples([known]), protocol)) == expected
    finally:
        sys.modules.pop("product_on_a_device", None)


def test_where_a_model_goes(monkeypatch, capsys):
    """A table that does not fit stays in host memory; on a device that is full, the CPU ranks."""
    model = random_model("TransE_l2")
    monkeypatch.setattr(evaluation_device, "torch_device", lambda gpu: torch.device("cpu") if gpu >= 0 else None)
    assert evaluation_device.on_device(model, -1) is model
    for free, held in ((4 << 30, torch.Tensor), ((1 << 30) + 50, np.ndarray)):
        monkeypatch.setattr(evaluation_device, "_free_bytes", lambda device, free=free: free)
        placed = evaluation_device.on_device(model, 0)
        assert isinstance(placed.entity, held) and placed.device == torch.device("cpu")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(evaluation_device, "_free_bytes", lambda device: 5 << 20)
    assert evaluation_device.on_device(model, 0) is model
    assert "has 5 MiB free, too few to rank with; the CPU ranks" in capsys.readouterr().out
