"""Where the plan of a step is read, and which plan comes to the device with its rows."""
import numpy as np
import pytest
import torch
from devices import PlainDevice

from dglke_frugal.store.rows.plans_ahead import PLANS_AHEAD, PlansAhead

CELLS, BYTES = 3, 256


class Client:
    """Plans in cells that are used in turn; each byte of a plan is its step."""

    plan_bytes = BYTES

    def __init__(self):
        self.cells = np.zeros((CELLS, BYTES), np.uint8)
        self.planned_steps = 0

    def plan_up_to(self, steps):
        for step in range(self.planned_steps, steps):
            self.cells[step % CELLS] = step
        self.planned_steps = steps

    def plan_cell(self, step):
        assert step < self.planned_steps
        return torch.from_numpy(self.cells[step % CELLS])


def bytes_at(address):
    return np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * BYTES).from_address(address))


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_each_step_reads_its_own_plan(ahead):
    client = Client()
    plans = PlansAhead(client, client.plan_cell, PlainDevice())
    for step in range(3 * CELLS):
        client.plan_up_to(step + 1 + (ahead if step % 4 else 0))  # now and then the planner is late
        cell, following, place = plans.addresses(step)
        assert (bytes_at(cell) == step).all()
        if following:
            bytes_at(place)[:] = bytes_at(following)
            assert (bytes_at(cell) == step).all()


def test_what_is_not_decided_is_not_waited_for_and_the_rest_comes_ahead():
    client = Client()
    plans = PlansAhead(client, client.plan_cell, PlainDevice())
    cells = [each.ctypes.data for each in client.cells]
    client.plan_up_to(1)
    assert plans.addresses(0) == (cells[0], 0, 0)
    client.plan_up_to(3)
    cell, following, place = plans.addresses(1)
    assert (cell, following) == (cells[1], cells[2]) and place not in cells
    client.plan_up_to(4)
    there, following, other = plans.addresses(2)
    assert (there, following) == (place, cells[0]) and other not in (place, *cells)
    assert plans.addresses(3) == (other, 0, 0)
    assert PLANS_AHEAD == len({place, other})
