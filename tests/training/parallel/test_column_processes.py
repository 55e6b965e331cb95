"""Runs of several processes that each have some columns: the tables of one process on the same batches."""
import json
import os
import re
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from training.parallel.columns_oracle import ColumnsOracle
from training.parallel.conftest import (CARRIES, SLOW_FROM_STEP_21, Ranks, assert_gone, assert_same, in_floats,
                                        last_line, trained)

from dglke_frugal import _native
from dglke_frugal.options import TrainConfig
from dglke_frugal.models import find_model
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.parallel import column_run
from dglke_frugal.training.plan.column_config import shard_step
from dglke_frugal.training.run.session import load
from dglke_frugal.training.tables.start_values import STREAMS
from dglke_frugal.training.tables.tables import Tables
from dglke_frugal.training.run.run import step_config

BATCH, COEFFICIENT = 60, 1e-4  # of conftest.FLAGS


SHARDED = ["--gpu", 0, 0, "--parallel", "columns"]
DELAYS = "time.sleep(random.Random(rank * 1000 + step).expovariate(300))"


@pytest.fixture
def columns(small, tmp_path, interpreter):
    """Runs on the CPU as a device (tests/devices.py), with several of them as several GPUs."""
    found = Ranks(small, tmp_path, interpreter)
    found.gpu = "devices.Device()"
    return found


def alone(columns, ranks, *given):
    """One process that trains on the batches of all ranks."""
    return trained(columns.run(*given, "--gpu", 0, "--batch_size", ranks * BATCH, "-rc", COEFFICIENT / ranks)[0])


MODELS = {"TransE_l2": [], "TransE_l1": [], "DistMult": [], "ComplEx": [], "RotatE": ["-de"], "SimplE": ["-de", "-dr"]}


def assert_close(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("given", [[], ["--model_name", "ComplEx", "-adv", "--flush", "none"],
                                   ["--reciprocal", "--init", "normal", "--init_scale", 0.3],
                                   ["-adv", "--subsampling", "uniq", "--neg_chunk_size", 5]])
def test_ranks_with_columns_compute_what_one_process_does(columns, given):
    folder, output = columns.run(*given, *SHARDED, "--max_step", 6)
    assert "a step of all 2 ranks trains on 120 triples" in output
    assert_close(trained(folder), alone(columns, 2, *given, "--max_step", 6))
    result = json.loads((folder / "result.json").read_text())
    assert result["parallel"]["mode"] == "columns" and [each["steps"] for each in result["ranks"]] == [6, 6]


def test_delays_validations_and_a_resumed_run_change_nothing(columns):
    expected = trained(columns.run(*SHARDED, "--max_step", 17)[0])
    given = ["--eval_percent", 0.05, "--checkpoint_interval", 7]
    folder, output = columns.run(*SHARDED, *given, "--max_step", 9, "--valid", "--eval_interval", 4, suffering=DELAYS)
    assert output.count("[0]Valid average MRR") == 2
    settings = ["--lookahead", 3, "--cache_ratio", 0.4]
    _, output = columns.run("--max_step", 17, "--test", *settings, resume=folder)
    assert_same(trained(folder), expected)
    assert "[0]Test average MRR" in output


CACHED = ["--cache_ratio", 0.2]


@pytest.mark.parametrize("given", [[], ["--row_dtype", "fp16"]])
def test_rows_that_owners_move_are_those_that_each_moves_itself(columns, given):
    """Also those that are evicted, late, validated, saved, and gone on with in the other way."""
    expected = trained(columns.run(*SHARDED, *given, "--max_step", 17)[0])
    folder, output = columns.run(*SHARDED, *given, *CACHED, "--cache_policy", "lfu", "--max_step", 9, "--valid",
                                 "--eval_interval", 4, "--eval_percent", 0.05, suffering=DELAYS, first=CARRIES)
    assert output.count("[0]Valid average MRR") == 2
    columns.run("--max_step", 13, resume=folder)
    columns.run("--max_step", 17, "--cache_policy", "static", "--lookahead", 3, resume=folder, first=CARRIES)
    assert_same(trained(folder), expected)


def test_three_ranks_move_rows_of_a_model_of_two_halves(columns):
    given = ["--gpu", 0, 0, 0, "--parallel", "columns", "--model_name", "ComplEx", "-adv", "--max_step", 11]
    expected = trained(columns.run(*given)[0])
    assert_same(trained(columns.run(*given, *CACHED, suffering=DELAYS, first=CARRIES)[0]), expected)


def oracle(columns, ranks, *given, steps):
    """What ranks with rows in half precision have in their tables after `steps` steps, by plain loops."""
    config = columns.config("--row_dtype", "fp16", *given)
    graph, seed = load(config), config.run.seed
    start = Tables.create(config, graph.n_entities, graph.n_relations, seed)
    halves = dict(zip(("entity", "relation"), find_model(config.model.model_name).halves))
    found = ColumnsOracle(shard_step(step_config(config), ranks),
                          {name: np.array(store.embeddings[:]) for name, store in start.stores.items()}, halves, ranks,
                          ("fp16", seed, STREAMS["entity"]))
    sampler = Sampler(*graph.train, graph.n_entities, graph.n_relations,
                      SamplerConfig(ranks * BATCH, config.batch.neg_sample_size, seed))
    for step in range(steps):
        found.train(sampler.batch(step))
    return found.arrays()


@pytest.mark.parametrize("model", [["TransE_l2"], ["RotatE", "-de"]])
def test_half_precision_rows_are_those_of_plain_loops(columns, model):
    given = ["--model_name", *model, "-adv"]
    expected = oracle(columns, 2, *given, steps=11)
    half = [*given, "--row_dtype", "fp16", *SHARDED]
    for more in (["--flush", "none"], ["--cache_ratio", 0.1, "--cache_policy", "lfu", "--lookahead", 3]):
        assert_same(in_floats(trained(columns.run(*half, *more, "--max_step", 11)[0])), expected)


def test_half_precision_rows_are_saved_and_gone_on_with(columns):
    """From a checkpoint, and from saved tables with optimizer states next to them; validated on the way."""
    given = [*SHARDED, "--row_dtype", "fp16", "--cache_ratio", 0.3]
    whole, _ = columns.run(*given, "--max_step", 17)
    expected, saved = trained(whole), np.load(whole / "small_TransE_l2_entity.npy")
    assert expected["entity"].dtype == np.float16 and saved.dtype == np.float32
    np.testing.assert_array_equal(saved, expected["entity"].astype(np.float32))
    folder, output = columns.run(*given, "--max_step", 9, "--valid", "--eval_interval", 4, "--eval_percent", 0.05,
                                 suffering=DELAYS)
    assert output.count("[0]Valid average MRR") == 2
    columns.run("--max_step", 17, "--lookahead", 3, resume=folder)
    assert_same(trained(folder), expected)
    folder, _ = columns.run(*given, "--max_step", 9, "--checkpoint_interval", 0, "--save_dtype", "fp16")
    assert np.load(folder / "small_TransE_l2_entity.npy").dtype == np.float16
    assert not (folder / "checkpoints").exists()
    columns.run("--max_step", 17, "--checkpoint_interval", 17, "--test", resume=folder)
    assert_same(trained(folder), expected)


def test_saved_tables_and_metrics_are_those_of_whole_rows(columns):
    given = ["--model_name", "RotatE", "-de", "--max_step", 4, "--test"]
    folder, output = columns.run(*given, *SHARDED)
    arrays = trained(folder)
    for name in ("entity", "relation"):
        np.testing.assert_array_equal(np.load(folder / f"small_RotatE_{name}.npy"), arrays[name])
    again, of_one = columns.run(*given, "--gpu", 0, "--batch_size", 2 * BATCH, "-rc", COEFFICIENT / 2)
    found, wanted = (float(re.search(r"Test average MRR: (\S+)", messages)[1]) for messages in (output, of_one))
    assert found == pytest.approx(wanted, rel=1e-2)


def test_products_on_tensor_cores_go_with_columns(columns):
    """On the CPU, where nothing is rounded."""
    few = [*SHARDED, "--max_step", 10]
    assert_same(trained(columns.run(*few, "--matmul", "tf32x3")[0]), trained(columns.run(*few)[0]))


def test_a_rank_multiplies_as_it_is_told(monkeypatch):
    given = {}
    monkeypatch.setattr(column_run, "make_step", lambda config, **settings: given.update(settings))
    run = SimpleNamespace(
        config=TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 12, "gpu": [0, 1], "matmul": "tf32"}),
        device=None, group=None,
        tables=SimpleNamespace(connect=lambda _: None, exchange=SimpleNamespace(connect=lambda *_: None)))
    column_run.ColumnRun._join(run)
    assert given["matmul"] == "tf32"


@pytest.mark.parametrize("given, sentence", [
    (["--model_name", "RESCAL"], "does not go with RESCAL"), (["--hidden_dim", 13], "a --hidden_dim that 2 divides"),
    (["--rel_part"], "leave --partition, --rel_part and --negatives out"),
    (["--flush", "sync"], "leave --flush sync out"),
    (["--flush", "p2f"], "leave --flush p2f out")])
def test_what_cannot_be_split_is_refused(columns, given, sentence):
    arguments, _ = columns.arguments(*given, *SHARDED)
    if "RESCAL" not in given:
        arguments = [*arguments, *map(str, given)]  # behind the common ones
    output = columns.end(arguments, code=2)
    assert sentence in output.splitlines()[-1], output


def test_another_mode_than_that_of_the_checkpoint_is_refused(columns):
    folder, _ = columns.run(*SHARDED, "--max_step", 4)
    arguments = ["--resume", folder, "--parallel", "rows", "--max_step", 8]
    assert "is of another configuration" in columns.end(arguments, code=2)


@pytest.mark.parametrize("gpu", [False, pytest.param(True, marks=pytest.mark.cuda)])
@pytest.mark.parametrize("first", ["pass", CARRIES])
def test_a_rank_that_is_killed_stops_all(columns, first, gpu):
    if gpu:
        columns.use_gpus()
    process, _, others = columns.begin(*SHARDED, *CACHED, first=first)
    os.kill(others[1], signal.SIGKILL)
    assert re.search("Rank 1 .*has ended", last_line(process, others))


def test_a_device_that_fails_stops_all(columns):
    columns.gpu = "devices.FailingDevice(60 if rank == 1 else -1)"
    arguments, _ = columns.arguments(*SHARDED, "--max_step", 1_000_000)
    output, _ = columns.start(arguments, interpreter=columns.interpreter).communicate(timeout=180)
    assert re.search("Rank 1.*the device failed in step 61.*the bus is gone", output.splitlines()[-1])


def test_no_rank_outlives_rank_0(columns):
    process, _, others = columns.begin(*SHARDED)
    process.kill()
    process.communicate(timeout=180)
    assert_gone(others.values())


def test_an_interrupt_stops_all_after_the_same_step(columns):
    process, folder, others = columns.begin(*SHARDED, suffering=SLOW_FROM_STEP_21)
    os.kill(others[1], signal.SIGTERM)
    output, _ = process.communicate(timeout=180)
    assert_gone(others.values())
    assert process.returncode == 128 + signal.SIGTERM, output
    (checkpoint,) = (folder / "checkpoints").glob("step-*")
    steps = int(checkpoint.name[5:]) + 3
    columns.run("--max_step", steps, resume=folder)
    expected, _ = columns.run(*SHARDED, "--max_step", steps)
    assert_same(trained(folder), trained(expected))


two_gpus = pytest.mark.skipif(len(_native.cuda_devices(with_free_memory=False)[0]) < 2, reason="needs two GPUs")


@pytest.mark.cuda
@pytest.mark.parametrize("gpus", [[0, 0], pytest.param([0, 1], marks=two_gpus)])
@pytest.mark.parametrize("model, element", [*((model, "fp32") for model in MODELS), ("TransE_l2", "fp16"),
                                            ("RotatE", "fp16")])
def test_gpus_compute_the_cpus_tables(columns, model, element, gpus):
    """Through peer access and through host memory, with and without a cache, also of rows that are evicted, with rows
    that their owners move, and with tables on the devices."""
    given = ["--model_name", model, *MODELS[model], "-adv", "--parallel", "columns", "--max_step", 12, "--gpu", *gpus,
             "--row_dtype", element]
    expected = trained(columns.run(*given)[0])
    columns.use_gpus()
    for more in ([], ["--flush", "none"], ["--peer", "off", "--cache_ratio", 0, "--lookahead", 2]):
        assert_same(trained(columns.run(*given, *more)[0]), expected)
    for more in (CACHED, [*CACHED, "--cache_policy", "lfu", "--cuda_graphs", "off"]):
        assert_same(trained(columns.run(*given, *more, first=CARRIES)[0]), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("gpus", [[0, 0], pytest.param([0, 1], marks=two_gpus)])
@pytest.mark.parametrize("matmul, bound", [("tf32x3", 1e-4), ("tf32", 1e-2)])
def test_gpus_round_products_as_asked(columns, matmul, bound, gpus):
    """Near the tables of fp32, not the same, and the same whatever way rows and scores take."""
    given = ["-adv", "--parallel", "columns", "--max_step", 12, "--gpu", *gpus]
    columns.use_gpus()
    exact, found = (trained(columns.run(*given, *more)[0]) for more in ([], ["--matmul", matmul]))
    assert any((found[name] != exact[name]).any() for name in exact)
    for name, array in exact.items():
        assert np.mean(np.abs(found[name] - array) <= bound * np.abs(array).max()) >= 0.999, name
    on_devices, uncached = ["--flush", "none"], ["--cache_ratio", 0]
    for more in (on_devices, [*on_devices, "--peer", "off"], [*uncached, "--peer", "off"]):
        assert_same(trained(columns.run(*given, "--matmul", matmul, *more)[0]), found)
    assert_same(trained(columns.run(*given, "--matmul", matmul, *CACHED, first=CARRIES)[0]), found)


def test_early_stopping_restores_the_best_columns(columns):
    """The tables at the end are those of a run that stops at its best validation."""
    given = ["--valid", "--eval_interval", 10, "--eval_percent", 0.05, "--lr", 4]
    folder, output = columns.run(*SHARDED, *given, "--max_step", 400, "--early_stop_patience", 2, "--test")
    result = json.loads((folder / "result.json").read_text())
    best = result["best_validation"]["step"]
    assert result["stopped_early"] and f"taking the tables of step {best}" in output
    until, _ = columns.run(*SHARDED, *given, "--max_step", best)
    for name in ("entity", "relation"):
        np.testing.assert_array_equal(*(np.load(each / f"small_TransE_l2_{name}.npy") for each in (folder, until)))
