"""A model is one file: everything that takes a model by its name then takes it."""
import json

import numpy as np
import pytest
from training.conftest import tables
from training.toy_model import Toy

import dglke_frugal
from dglke_frugal.errors import InputError
from dglke_frugal.flag_values import model_name
from dglke_frugal.models import find_model, model_names, registry
from dglke_frugal.models.built_in.distmult import DistMult
from dglke_frugal.options import TrainConfig
from dglke_frugal.presets.auto import Situation
from dglke_frugal.training.full_softmax import config
from dglke_frugal.training.full_softmax.config import check_full_softmax


@pytest.fixture(autouse=True)
def added(monkeypatch):
    """What its file does in models/built_in."""
    monkeypatch.setattr(registry, "MODELS", (*registry.MODELS, Toy()))


def test_it_trains_ranks_and_answers_by_its_name(runs):
    flags = ["--model_name", "Toy", "--max_step", 40, "--test"]
    folder = runs(*flags)
    assert folder.name == "Toy_small_0"
    assert tables(runs(*flags, "--flush", "p2f", "--cache_ratio", 0.2)) == tables(folder)
    assert 0 < json.loads((folder / "result.json").read_text())["test"]["MRR"] < 1
    run = dglke_frugal.load(folder)
    entity, relation = (np.asarray(table, np.float64) for table in (run.model.entity, run.model.relation))
    assert entity.shape[1] == 2 * relation.shape[1]
    expected = (entity[1] * np.tile(relation[2], 2) * entity[3]).sum()
    assert run.score(1, 2, 3)[0] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_every_list_of_models_has_it():
    assert {"Toy", "ToyToo"} <= set(model_names())
    assert model_name("Toy") == "Toy" and find_model("ToyToo").name == "Toy"


class Short(DistMult):
    """A model of a query and a row, and no more."""
    name = "Short"
    reference = None
    predicts_relations = False


def test_without_torch_operations_there_is_no_softmax_over_all_entities(monkeypatch):
    for module in (registry, config):
        monkeypatch.setattr(module, "MODELS", (*registry.MODELS, Short()))
    flags = {"model_name": "Short", "loss_genre": "Softmax", "neg_sample_size": "all"}
    with pytest.raises(InputError, match="DistMult.*and not for Short; give a number"):
        check_full_softmax(TrainConfig.from_flags(flags))
    assert not Situation(100, 5, 1000, True, "Short", {}).against_all
    assert Situation(100, 5, 1000, True, "DistMult", {}).against_all
