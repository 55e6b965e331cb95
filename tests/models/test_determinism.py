"""No bit depends on the number of threads, on the instruction set, or on where rows lie."""

import pytest

from dglke_frugal import _native
from dglke_frugal.training.step.native_step import native_step
from golden_trace import Trace

RUNS = ["transe_l1", "transe_l2_adv", "transe_l2_hinge", "transe_l2_negdeg", "complex", "rotate", "simple", "rescal",
        "transr"]


def final_bits(recorded, threads, instruction_set=None):
    tables, losses = recorded.replay(threads, instruction_set)
    return [table.embeddings.tobytes() + table.state.tobytes() for table in tables], [step.total for step in losses]


@pytest.mark.parametrize("run", RUNS)
def test_threads_and_instruction_sets(golden, run):
    recorded = Trace(golden / f"{run}.npz")
    expected = final_bits(recorded, 1)
    for threads in (2, 5):
        assert final_bits(recorded, threads) == expected, f"{threads} threads"
    assert final_bits(recorded, 2, "baseline") == expected, "baseline instruction set"


def test_wrong_input_is_refused(golden):
    recorded = Trace(golden / "transe_l2_adv.npz")
    entities, relations = recorded.host_tables()
    step = native_step(recorded.config())
    with pytest.raises(IndexError):
        step.run_in_place(recorded.batch(0), _native.HostTable(10, entities.dim), relations)
    with pytest.raises(ValueError, match="rows of another length"):
        step.run_in_place(recorded.batch(0), entities, _native.HostTable(relations.rows, relations.dim + 1))
    with pytest.raises(ValueError, match="no projections"):
        step.run_in_place(recorded.batch(0), entities, relations, relations)
