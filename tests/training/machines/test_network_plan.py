"""What a plan of several machines says, and that the page has its figures."""
import itertools
import json

import pytest
from conftest import ROOT

from dglke_frugal.cli.main import main
from dglke_frugal.options import TrainConfig
from dglke_frugal.training.machines.network_plan import NetworkPlan, network_plan
from dglke_frugal.training.plan.memory_plan import GraphSize

FREEBASE, WIKIKG = GraphSize(86_054_151, 14_824, 338_586_276), GraphSize(91_230_610, 1_387, 601_062_811)
GIGABITS, MACHINES, RATES = (1, 10, 25, 100, 400, 1600), (2, 8, 64), (1e5, 2e6, 9e6)
GIGABIT = 1e9 / 8


def plan(machines, gigabits, rate, graph=FREEBASE, **flags):
    config = TrainConfig.from_flags({"batch_size": 1024, "neg_sample_size": 256, "num_proc": machines, **flags})
    return network_plan(config, graph, machines, gigabits * GIGABIT, 1, rate)


def model_table():
    lines = ["| network | machines | 0.1 M triples a second alone | 2 M | 9 M |", "|---|---|---|---|---|"]
    for gigabits in GIGABITS:
        for machines in MACHINES:
            times = " | ".join(f"{plan(machines, gigabits, rate).over_one:.2g}" for rate in RATES)
            lines.append(f"| {gigabits} Gb/s | {machines} | {times} |")
    return "\n".join(lines)


def softmax_plan(machines, gigabits, entities, cores, rate=None, **flags):
    config = TrainConfig.from_flags({"model_name": "ComplEx", "hidden_dim": 200, "batch_size": 1000,
                                     "loss_genre": "Softmax", "neg_sample_size": "all", **flags})
    return network_plan(config, GraphSize(entities, 500, 10 * entities), machines, gigabits * GIGABIT, cores, rate)


def softmax_table():
    columns = list(itertools.product((20_000, 200_000, 2_000_000), (4, 48)))
    heads = " | ".join(f"{entities:,} entities, {cores} cores each" for entities, cores in columns)
    lines = [f"| network | machines | {heads} |", "|---|---|" + len(columns) * "---|"]
    for gigabits in (1, 10, 25):
        for machines in (2, 8):
            times = " | ".join(f"{softmax_plan(machines, gigabits, *each).over_one:.2g}" for each in columns)
            lines.append(f"| {gigabits} Gb/s | {machines} | {times} |")
    return "\n".join(lines)


@pytest.mark.parametrize("name, table", [("model", model_table), ("softmax model", softmax_table)])
def test_the_page_has_the_plans_figures(name, table):
    text = (ROOT / "docs" / "machines.md").read_text()
    assert text.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0] == table()


def test_machines_share_out_the_work_of_a_softmax_and_wait_for_its_blocks():
    fast = softmax_plan(4, 1e9, 10**8, 1)
    assert fast.over_one == pytest.approx(4, rel=1e-3)
    slow = softmax_plan(4, 1e-3, 1000, 1)
    assert slow.over_one < 0.01 and slow.step_seconds > slow.bytes_per_step / slow.bytes_per_second
    assert softmax_plan(2, 10, 10**5, 1, rate=100).alone_seconds == 10
    predicting = softmax_plan(2, 1e9, 500, 1, relation_prediction=1.0)
    assert predicting.over_one < softmax_plan(2, 1e9, 500, 1).over_one  # all machines score all relations
    assert json.loads(json.dumps(fast.to_dict()))["triples_per_second"] == pytest.approx(1000 / fast.step_seconds)


def test_batches_are_no_larger_than_the_graph():
    graph = GraphSize(100, 3, 300)
    given = {"model_name": "ComplEx", "hidden_dim": 200, "loss_genre": "Softmax", "neg_sample_size": "all"}
    plans = [network_plan(TrainConfig.from_flags({**given, "batch_size": size}), graph, 2, GIGABIT, 1)
             for size in (300, 10**6)]
    assert plans[0] == plans[1] and plans[0].to_dict()["triples_per_second"] * plans[0].step_seconds == (
        pytest.approx(300))


def test_wikikg90mv2_is_as_the_page_says():
    for given in itertools.product(MACHINES, GIGABITS, RATES):
        assert 0.88 <= plan(*given, graph=WIKIKG).over_one / plan(*given).over_one <= 1.12


def test_a_faster_network_and_fewer_bytes_are_faster():
    slow, fast = (plan(2, gigabits, 2e6) for gigabits in (1, 25))
    assert fast.step_seconds < slow.step_seconds
    fp16, local = plan(2, 1, 2e6, row_dtype="fp16"), plan(2, 1, 2e6, negatives="local", partition="hash")
    assert local.step_seconds < fp16.step_seconds < slow.step_seconds
    free = NetworkPlan(2, 1e30, 0, 0, 0.01, 0.02, 10, "triples", boundary_seconds=0)
    assert free.over_one == 2 and free.to_dict()["triples_per_second"] == pytest.approx(1000)


def test_the_next_step_waits_for_the_work_on_urgent_blocks():
    def step(overlapped):
        return NetworkPlan(2, 1e30, 3e6, 1e6, 0.01, 0.02, 10, "triples", 0, overlapped, 0.004).step_seconds

    assert [step(0.0), step(0.05), step(1.0)] == pytest.approx([0.011, 0.0105, 0.01])


def test_the_command_plans_each_machine(capsys):
    size = ["--entities", "1000000", "--triples", "5000000"]
    main(["plan", *size, "--nnodes", "2", "--network", "25Gb", "--one_machine", "1e5", "--json"])
    two = json.loads(capsys.readouterr().out)
    main(["plan", *size, "--json"])
    one = json.loads(capsys.readouterr().out)
    assert two["host"]["parts"]["entity table"] * 2 == one["host"]["parts"]["entity table"]
    assert two["disk"]["bytes"] == one["disk"]["bytes"]  # which the machines share
    assert two["host"]["parts"]["triples"] == one["host"]["parts"]["triples"] + 4 * 5_000_000  # and whose they are
    assert two["network"]["machines"] == 2 and two["network"]["bytes_per_step"] > 0
    main(["plan", "--entities", "1000000", "--nnodes", "2", "--network", "100Mb", "--one_machine", "1e6"])
    assert "one machine alone would be faster" in capsys.readouterr().out


def test_lengths_in_epochs_are_steps_of_the_graph(capsys):
    def disk(*flags):
        main(["plan", "--entities", "1000", "--triples", "204800", "--nnodes", "2", "--valid", "--json", *flags])
        return json.loads(capsys.readouterr().out)["disk"]["parts"]

    steps = disk("--max_step", "1000", "--eval_interval", "100")  # of 2048 triples: a hundred are an epoch
    assert disk("--max_epoch", "10") == steps


def test_the_command_plans_a_softmax_over_all_entities(capsys):
    given = ["plan", "--entities", "1000000", "--loss_genre", "Softmax", "--neg_sample_size", "all", "--model_name",
             "ComplEx", "--optimizer", "adam", "--json"]
    main([*given, "--nnodes", "4"])
    four = json.loads(capsys.readouterr().out)
    main(given)
    one = json.loads(capsys.readouterr().out)
    assert four["host"]["parts"]["entity table"] * 4 == one["host"]["parts"]["entity table"]
    for name in ("relation table", "triples", "batches ahead"):
        assert four["host"]["parts"][name] == one["host"]["parts"][name]
    assert four["host"]["parts"]["training step"] <= one["host"]["parts"]["training step"]
    assert four["host"]["parts"]["blocks between machines"] > 0
    assert four["network"]["background_bytes"] == 0 and four["network"]["bytes_per_step"] > 0


@pytest.mark.parametrize("given, sentence", [
    (["--nnodes", "2", "--gpu", "0", "--loss_genre", "Softmax", "--neg_sample_size", "all", "--model_name", "ComplEx"],
     "of several machines it does not compute a softmax over all entities"),
    (["--nnodes", "0"], "--nnodes is 0"), (["--nnodes", "65"], "--nnodes is 65"),
    (["--nnodes", "2", "--gpu", "0", "1"], "each machine computes on one GPU"),
    (["--nnodes", "2", "--network", "25"], "not the speed of a network"),
    (["--nnodes", "2", "--one_machine", "0"], "--one_machine is 0"),
    (["--nnodes", "2", "--one_machine", "inf"], "--one_machine is inf"),
    (["--nnodes", "2", "--one_machine", "1e-320"], "a number of triples a second, from 1 to 1e12")])
def test_bad_input_is_one_sentence(given, sentence, refused):
    with refused(sentence):
        main(["plan", "--entities", "1000", *given])
