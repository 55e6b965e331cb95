"""Runs of several machines, as processes over loopback, have the files of as many processes on one machine."""
import json
import re

import pytest
from training.parallel.conftest import NEEDS_METIS, assert_same, trained


def metrics(output):
    return re.findall(r"Test average \S+: \S+", output)


@pytest.mark.parametrize("count, given", [
    (2, ["--negatives", "local"]),
    (3, ["--partition", "range"]),
    pytest.param(2, ["--partition", "metis", "--negatives", "local"], marks=NEEDS_METIS),
    pytest.param(3, ["--partition", "metis", "--row_dtype", "fp16", "-adv"], marks=NEEDS_METIS),
    (2, ["--model_name", "ComplEx", "--row_dtype", "fp16", "-adv"]),
    (2, ["--model_name", "RotatE", "-de", "--neg_deg_sample"]),
    (3, ["--model_name", "SimplE", "-de", "-dr", "--exclude_positive", "--subsampling", "base"]),
    (2, ["--model_name", "DistMult", "--reciprocal", "--no_eval_filter"]),
    (2, ["--neg_sample_size_eval", 50]),
], ids=["hash", "range", "metis", "metis fp16", "fp16", "rotate", "simple", "reciprocal", "sampled"])
def test_they_write_what_one_machine_writes(machines, count, given):
    partition = [] if "--partition" in given else ["--partition", "hash"]
    flags = ["--max_step", 12, "--test", *given]
    folder, outputs = machines.run_all(count, *flags)
    one, output = machines.run(*flags, *partition, "--num_proc", count)
    assert_same(trained(folder), trained(one))
    assert metrics(outputs[0]) == metrics(output) != []
    for name in ("entity", "relation"):
        file = next(folder.glob(f"*_{name}.npy")).name
        assert (folder / file).read_bytes() == (one / file).read_bytes()
    saved = [json.loads((each / "config.json").read_text())["saved"] for each in (folder, one)]
    assert saved[0] == saved[1]


def test_what_one_machine_has_begun_several_end_and_the_other_way_round(machines):
    flags = ["--partition", "hash"]
    one, _ = machines.run("--max_step", 20, "--num_proc", 2, *flags)
    begun, _ = machines.run("--max_step", 8, "--num_proc", 2, *flags)
    folder, _ = machines.run_all(2, "--max_step", 14, resume=begun)
    folder, _ = machines.run("--max_step", 20, resume=folder)
    assert_same(trained(folder), trained(one))


def test_without_checkpoints_they_go_on_from_what_they_have_saved(machines):
    flags = ["--partition", "hash", "--checkpoint_interval", 0]
    one, _ = machines.run("--max_step", 14, "--num_proc", 2, *flags)
    begun, _ = machines.run_all(2, "--max_step", 8, *flags)
    folder, _ = machines.run_all(2, "--max_step", 14, resume=begun)
    file = next(folder.glob("*_entity.npy")).name
    assert (folder / file).read_bytes() == (one / file).read_bytes()


def test_validations_and_early_stopping_are_those_of_one_machine(machines):
    flags = ["--max_step", 40, "--valid", "--eval_interval", 4, "--early_stop_patience", 2, "--lr", 0.5]
    folder, _ = machines.run_all(2, *flags)
    one, _ = machines.run(*flags, "--partition", "hash", "--num_proc", 2)
    results = [json.loads((each / "result.json").read_text()) for each in (folder, one)]
    assert results[0]["best_validation"] == results[1]["best_validation"]
    assert results[0]["steps"] == results[1]["steps"]
    assert_same(trained(folder), trained(one))


@pytest.mark.parametrize("auto", [False, True])
def test_another_number_of_machines_is_refused(machines, auto):
    begun, _ = machines.run_all(2, "--max_step", 4)
    given = ["--resume", begun]
    if auto:
        given = [*machines.arguments()[0], "--save_path", begun.parent, "--resume", "auto"]
    codes, outputs = machines.end_all(machines.start_all(3, [*given, "--max_step", 8]))
    assert codes == [2, 2, 2]
    assert all("has started 3 machines, and the run has 2 (--num_proc): start 2, since" in output for output in outputs)


def test_a_stale_share_of_a_checkpoint_is_refused(machines):
    """One machine's share of a file is that of an earlier checkpoint, as if its disk had lost what was written."""
    files = []
    for steps in (4, 8):
        begun, _ = machines.run_all(2, "--max_step", steps, "--no_save_emb", "--checkpoint_interval", 4)
        (file,) = begun.glob("checkpoints/step-*/entity.npy")
        files.append(file)
    earlier, last = (file.read_bytes() for file in files)
    files[1].write_bytes(last[: len(last) // 2] + earlier[len(last) // 2 :])
    codes, outputs = machines.end_all(machines.start_all(2, ["--resume", begun, "--max_step", 12]))
    assert all(codes), outputs
    assert all(f"{files[1]} is damaged: its checksum" in output.splitlines()[-1] for output in outputs), outputs


READS_OTHER_OWNERS = """
from dglke_frugal.training.batches import metis_owners
read = metis_owners.read_owners
def other(*given):
    owners = read(*given)
    order = metis_owners.np.concatenate([owners.ids(rank, metis_owners.np.arange(owners.count(rank)))
                                         for rank in range(owners.workers)])
    return metis_owners._native.RowOwners(order[::-1].copy(), owners.workers)
if os.environ.get("RANK") == "1":
    metis_owners.read_owners = other
"""
WITHOUT_PYMETIS = """
if os.environ.get("RANK") == "{machine}":
    sys.modules["pymetis"] = None
"""


@NEEDS_METIS
def test_owners_by_metis_go_on_as_they_were_and_need_pymetis_on_machine_0_alone(machines):
    flags = ["--partition", "metis", "--negatives", "local"]
    one, _ = machines.run("--max_step", 14, "--num_proc", 2, *flags)
    begun, _ = machines.run_all(2, "--max_step", 8, *flags, first=WITHOUT_PYMETIS.format(machine=1))
    folder, _ = machines.run_all(2, "--max_step", 14, resume=begun, first=WITHOUT_PYMETIS.format(machine=0))
    assert_same(trained(folder), trained(one))


@NEEDS_METIS
def test_without_pymetis_on_machine_0_all_say_so_and_leave_nothing(machines):
    for said in machines.refused_by_all(2, "--partition", "metis", first=WITHOUT_PYMETIS.format(machine=0)):
        assert "--partition metis needs pymetis" in said


@NEEDS_METIS
def test_a_machine_that_reads_other_owners_is_refused(machines):
    for said in machines.refused_by_all(2, "--partition", "metis", first=READS_OTHER_OWNERS):
        assert "machine 1 (" in said and "has read other owners" in said


COUNTS_READING = """
from dglke_frugal.data import from_text
build = from_text.build
from_text.build = lambda *given: print("a graph is built", flush=True) or build(*given)
"""


def test_a_machine_reads_the_graph_once_where_the_preset_goes_by_it(machines):
    flags = ["--preset", "auto/DistMult", "--neg_sample_size", 8, "--optimizer", "row_adagrad", "--max_step", 4]
    _, outputs = machines.run_all(2, *flags, first=COUNTS_READING)
    assert outputs[0].count("a graph is built") == 1
