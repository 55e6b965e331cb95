"""Floors of a step: every model has one from the rates that benchmarks measure."""

import numpy as np
import pytest

from benchmarks import train, train_step
from dglke_frugal.models import find_model


@pytest.fixture(scope="module")
def rates():
    return train_step.measured_rates(1)


@pytest.mark.parametrize("name", train.RECIPES)
def test_every_model_has_a_floor(rates, name):
    (batch,) = train_step.make_batches(np.random.default_rng(0), 1)
    model = find_model(name)
    dims = model.dims(*train_step.FLAGS.get(name, (train_step.HIDDEN, False, False)))
    floor = train_step.floor_seconds(model, batch, dims, rates)
    slower = train_step.floor_seconds(model, batch, dims, {key: rate / 2 for key, rate in rates.items()})
    assert floor > 0 and slower == pytest.approx(2 * floor)
