"""A custom model in torch trains as the built-in one with the same score function does."""
import sys

import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.models import RowDims, TorchModel, find_model
from dglke_frugal.training.step.make_step import make_step
from golden_trace import Trace


class CustomTransE(TorchModel):
    def score(self, head, relation, tail):
        return self.gamma - (head + relation - tail).norm(dim=-1)


class CustomDistMult(TorchModel):
    def score(self, head, relation, tail):
        return (head * relation * tail).sum(-1)


class Rows(CustomDistMult):
    """With rows of these lengths, or with those of an expression."""

    def __init__(self, *lengths):
        self._lengths = lengths

    def rows(self, entity, relation):
        return eval(self._lengths[0]) if isinstance(self._lengths[0], str) else RowDims(*self._lengths)


@pytest.fixture
def own_module(monkeypatch):
    """This file, importable as a module of a user."""
    monkeypatch.setitem(sys.modules, "users_models", sys.modules[__name__])


@pytest.mark.parametrize("run, own", [("transe_l2_adv", "CustomTransE"), ("transe_l2_negdeg", "CustomTransE"),
                                      ("transe_l2_hinge", "CustomTransE"), ("transe_l2_pairwise", "CustomTransE"),
                                      ("distmult", "CustomDistMult")])
def test_replays_recorded_runs(golden, own_module, run, own):
    recorded = Trace(golden / f"{run}.npz")
    recorded.meta.model = f"users_models:{own}"
    tables = recorded.host_tables()
    rows = [_native.DirectRows(table) for table in tables]
    step = make_step(recorded.config(), matmul="fp32")
    for i in range(20):
        batch = recorded.batch(i)
        for each, ids in zip(rows, (batch.entities, batch.relations)):
            each.announce(i, ids)
            each.begin(i)
        losses = step.run_rows(batch, *rows)
        for each in rows:
            each.end()
        np.testing.assert_allclose(losses.total, recorded.loss[i], rtol=1e-5)


def test_names_that_cannot_be_loaded(own_module):
    assert find_model("users_models:CustomTransE").name == "users_models:CustomTransE"
    with pytest.raises(InputError, match="there is no model 'TransX'"):
        find_model("TransX")
    with pytest.raises(InputError, match="cannot load the model 'no_such_module:X'"):
        find_model("no_such_module:X")
    with pytest.raises(InputError, match="no subclass"):
        find_model("users_models:Trace")


def test_rows_that_no_table_can_have(own_module):
    assert find_model("users_models:Rows(3, 5)").dims(4) == RowDims(3, 5)
    assert find_model("users_models:Rows('RowDims(np.int64(3), 5)')").dims(4) == RowDims(3, 5)
    for arguments in ("3, 0", "-1, 3", "4.0, 4", "4, 4, 16", "'(4, 4)'", "'None'"):
        with pytest.raises(InputError, match=r"rows\(\) of the model users_models:Rows.* returns .*; return RowDims"):
            find_model(f"users_models:Rows({arguments})").dims(4)
    with pytest.raises(InputError, match=r"check\(\) or rows\(\) of the model .* failed: ZeroDivisionError: .*; raise"):
        find_model("users_models:Rows('1 % 0')").dims(4)
