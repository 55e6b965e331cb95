"""Mistakes in the protocol between machines show in the tables, or are refused."""
import pytest
from training.machines.memory_transport import Network
from training.machines.thread_machines import configuration, run_machines, run_oracle, same_bits, small_graph

from dglke_frugal.training.machines.boundary import AHEAD, REST, URGENT
from dglke_frugal.training.machines.transport import MachineError

GRAPH = small_graph(1500, relations=200)  # large enough for rows that travel ahead


class Mutated:
    """A table of which some calls do something else."""

    def __init__(self, table, **calls):
        self._table, self._calls = table, calls

    def __getattr__(self, name):
        return self._calls.get(name) or getattr(self._table, name)


def mutated(place, **calls):
    """Changes calls (table, *arguments) of the entities (0) or relations (1)."""
    def mutate(tables):
        native = tables.boundaries._tables[place]
        changed = Mutated(native, **{
            name: lambda *arguments, call=call: call(native, *arguments) for name, call in calls.items()})
        tables.boundaries._tables[place] = changed

    return mutate


def shows(mutate):
    config = configuration(3)
    found, _ = run_machines(config, GRAPH, mutate=mutate)
    with pytest.raises(AssertionError):
        same_bits(found, run_oracle(config, GRAPH))


def test_without_a_mistake_nothing_shows():
    config = configuration(3)
    same_bits(run_machines(config, GRAPH, mutate=mutated(0))[0], run_oracle(config, GRAPH))


def test_a_block_that_is_used_before_it_landed():
    late = {}

    def land(native, name, boundary, sender, receiver, floats):
        if name == AHEAD:  # one boundary later, so that the step finds what lay there
            floats, late[sender, receiver] = late.get((sender, receiver)), (boundary, floats.copy())
            if floats is None:
                return
            boundary, floats = floats
        native.land(name, boundary, sender, receiver, floats)

    shows(mutated(0, land=land))


@pytest.mark.parametrize("name", [URGENT, REST])
def test_results_that_are_lost(name):
    def land(native, block, boundary, sender, receiver, floats):
        native.land(block, boundary, sender, receiver, 0 * floats if block == name else floats)

    shows(mutated(0, land=land))


def test_a_replica_that_is_not_refreshed():
    def land(native, block, *arguments):
        if block != AHEAD:
            native.land(block, *arguments)

    with pytest.raises(AssertionError, match="Arrays are not equal"):  # replicas are not alike any more
        run_machines(configuration(3), GRAPH, mutate=mutated(1, land=land))


def test_results_in_another_order_than_that_of_machines():
    config = configuration(3)
    found, _ = run_machines(config, GRAPH)
    with pytest.raises(AssertionError):
        same_bits(found, run_oracle(config, GRAPH, order=lambda batches: batches[::-1]))


def test_a_stale_block_is_refused():
    kept = {}

    def tamper(lane, number, sender, receiver, block):
        earlier = kept.setdefault((lane, sender, receiver, len(block)), block)
        return earlier if number > 6 else block

    with pytest.raises((MachineError, AssertionError)) as refused:
        run_machines(configuration(2), GRAPH, network=Network(2, tamper=tamper))
    assert "has sent another block than the one that is due" in str(refused.value) or "failed" in str(refused.value)
