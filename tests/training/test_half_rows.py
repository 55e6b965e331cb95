"""--row_dtype: runs whose entity rows are kept in half precision."""

import json

import numpy as np
import pytest
import torch
from devices import CUDA, STREAMS
from training.conftest import tables

from dglke_frugal import _native
from dglke_frugal.cli.main import main
from dglke_frugal.evaluation import EmbeddingModel, Protocol, Sampling, evaluate
from dglke_frugal.store.rows.half_embeddings import HalfEmbeddings

STEPS = ["--max_step", 60, "--log_interval", 20]


@pytest.mark.parametrize("kind", ["cpu", "queued", *STREAMS, CUDA])
def test_a_device_gives_the_same_tables(runs, kind):
    flags = ["--row_dtype", "fp16", "--model_name", "ComplEx", *STEPS]
    expected = tables(runs(*flags))
    stores = [["--flush", "none"], ["--flush", "direct", "--cache_ratio", 0.05],
              ["--flush", "direct", "--cache_ratio", 0.1, "--cache_policy", "lfu"]]
    if kind not in STREAMS:  # those are for rows that wait at no gate
        stores.append(["--flush", "sync", "--cache_ratio", 0.3])
    for store in stores:
        assert tables(runs.on_device(kind, *flags, *store)) == expected, store


@pytest.mark.parametrize("model", ["TransR", "RESCAL"])
def test_torch_computes_with_rows_in_half_precision(runs, model):
    flags = ["--row_dtype", "fp16", "--model_name", model, "--hidden_dim", 8, *STEPS]
    expected = runs(*flags)
    folders = [runs.on_device("cpu", *flags, *store)
               for store in (["--flush", "none"], ["--flush", "direct", "--cache_ratio", 0.1])]
    assert tables(folders[0]) == tables(folders[1])
    for path in sorted(expected.glob("*.npy")):
        wanted, found = np.load(path), np.load(folders[0] / path.name)
        # A last digit that differs may round to the other neighbour.
        unit = np.maximum(np.abs(wanted), 2.0**-14) * 2.0**-10 + 1e-4
        assert np.mean(np.abs(found - wanted) <= 2 * unit) >= 0.99, path.name


@pytest.mark.parametrize("device", [None, "queued"])
def test_a_run_goes_on_with_the_rows_that_it_had(runs, device):
    flags = ["--row_dtype", "fp16", "--flush", "direct" if device else "p2f", "--cache_ratio", 0.1]

    def run(*more, resume=None):
        if device:
            return runs.on_device(device, *flags, *more, resume=resume)
        return runs.resume(resume, *more) if resume else runs(*flags, *more)

    whole = tables(run("--max_step", 50))
    kept = run("--max_step", 30, "--checkpoint_interval", 10)
    (checkpoint,) = kept.glob("checkpoints/step-*")
    assert np.load(checkpoint / "entity.npy", mmap_mode="r").itemsize == 2
    final = run("--max_step", 30)
    for folder in (kept, final):  # from the checkpoint, and from saved tables with optimizer states next to them
        if device:
            runs.on_device(device, *flags, "--max_step", 50, resume=folder)
        else:
            runs.resume(folder, "--max_step", 50)
        assert tables(folder) == whole


def test_files_are_float32_that_half_precision_hold(runs):
    folder = runs("--row_dtype", "fp16", *STEPS)
    entities = np.load(folder / "small_TransE_l2_entity.npy")
    assert entities.dtype == np.float32
    np.testing.assert_array_equal(entities, entities.astype(np.float16).astype(np.float32))
    relations = np.load(folder / "small_TransE_l2_relation.npy")
    assert (relations != relations.astype(np.float16)).any()


@pytest.mark.parametrize("model, flags", [("TransE_l2", ["--hidden_dim", 64, "--lr", 0.25, "-rc", 1e-9]),
                                          ("ComplEx", ["--hidden_dim", 64, "--gamma", 20, "-rc", 1e-6])])
def test_what_is_learned_is_near(runs, model, flags):
    found = {}
    for dtype in ("fp32", "fp16"):
        folder = runs("--row_dtype", dtype, "--model_name", model, *flags, "-adv", "--max_step", 2000, "--test")
        found[dtype] = json.loads((folder / "result.json").read_text())["test"]["MRR"]
    assert found["fp32"] > 0.6
    assert abs(found["fp16"] - found["fp32"]) < 0.006, found


def test_ranks_are_those_of_the_saved_tables(runs):
    folder = runs("--row_dtype", "fp16", *STEPS, "--test")
    sampled = runs("--row_dtype", "fp16", *STEPS, "--test", "--neg_sample_size_eval", 50)
    for each, flags in ((folder, []), (sampled, ["--neg_sample_size_eval", "50", "--batch_size_eval", "8"])):
        trained = json.loads((each / "result.json").read_text())["test"]
        assert trained["MRR"] > 0
        assert (each / "small_TransE_l2_entity.npy").exists()
    assert tables(folder) == tables(sampled)


def test_the_best_rows_are_taken_and_others_are_started_from(runs):
    flags = ["--row_dtype", "fp16", "--max_step", 60, "--valid", "--eval_interval", 20, "--eval_percent", 0.05]
    best = runs(*flags, "--early_stop_patience", 1, "--lr", 0.5)
    assert np.load(best / "small_TransE_l2_entity.npy").dtype == np.float32
    warm = runs("--row_dtype", "fp16", "--max_step", 0, "--init_from", best)
    np.testing.assert_array_equal(np.load(warm / "small_TransE_l2_entity.npy"),
                                  np.load(best / "small_TransE_l2_entity.npy"))


@pytest.fixture
def plan(capsys):
    """What dglke_frugal plan says of a million entities in half precision, or of another type."""
    def plan(*flags, dtype="fp16"):
        main(["plan", "--entities", "1000000", "--relations", "10", "--hidden_dim", "400", "--row_dtype", dtype,
              "--json", *flags])
        return json.loads(capsys.readouterr().out)

    return plan


def test_the_plan_counts_half_precision(plan):
    half, whole = plan()["host"]["parts"], plan(dtype="fp32")["host"]["parts"]
    assert whole["entity table"] == 1664 * 10**6
    assert half["entity table"] == 896 * 10**6
    assert half["relation table"] == whole["relation table"]


def test_the_plan_of_ranks_with_columns_counts_half_precision(plan):
    flags = ["--gpu", "0", "1", "--valid", "--checkpoint_interval", "1000"]
    found, floats = plan(*flags, "--parallel", "columns"), plan(*flags, "--parallel", "columns", dtype="fp32")
    half, whole = found["host"]["parts"], floats["host"]["parts"]
    # 200 numbers in half precision and the state in a row, 101 floats in four lines
    assert half["entity table"] == 2 * 512 * 10**6
    assert whole["entity table"] == 2 * 896 * 10**6
    assert half["relation table"] == whole["relation table"]
    assert half["whole tables for evaluation"] == 896 * 10**6 + 10 * 1664
    # The last checkpoint, the next one and the best: of every rank its columns and the state.
    assert floats["disk"]["parts"]["checkpoints"] - found["disk"]["parts"]["checkpoints"] == 3 * 800 * 10**6
    assert plan(*flags)["host"]["parts"] == half  # auto


def test_the_plan_of_ranks_that_share_rows_counts_half_precision(plan):
    flags = ["--num_proc", "2", "--test", "--cache_ratio", "0.1", "--neg_sample_size", "1000", "--batch_size", "1000"]
    half, whole = plan(*flags)["host"]["parts"], plan(*flags, dtype="fp32")["host"]["parts"]
    assert half["entity table"] == 896 * 10**6 and half["entity cache"] == 2 * 10**5 * 896
    assert half["entities in float32"] == 2 * 1600 * 10**6  # each rank has a copy, to rank by
    assert whole["flush engine"] / 2 < half["flush engine"] < whole["flush engine"]  # gradients stay as long


@pytest.mark.parametrize("model", ["TransE_l2", "TransE_l1", "DistMult", "TransR"])
def test_a_table_too_large_for_the_device_is_ranked_by_blocks(model):
    """As evaluation.device leaves one in host memory; the device is the CPU here."""
    rng = np.random.default_rng(0)
    table = _native.HostTable(80, 8, element="fp16")
    table.init_uniform(-1, 1, 1, 0)
    half = HalfEmbeddings(table)
    relation = rng.normal(size=(5, 8)).astype(np.float32)
    projection = rng.normal(size=(5, 64)).astype(np.float32) if model == "TransR" else None
    triples = tuple(rng.integers(0, bound, 30) for bound in (80, 5, 80))
    found = [evaluate(EmbeddingModel(model, 12.0, 8, entity, relation, projection, device), triples,
                      protocol=protocol, show=False).metrics()
             for entity, device, protocol in ((half, torch.device("cpu"), Protocol(known="kept")),
                                              (half[:], None, Protocol(known="kept")))]
    assert found[0] == found[1]
    sampled = Protocol(known="kept", sampling=Sampling(20, 4))
    found = [evaluate(EmbeddingModel(model, 12.0, 8, entity, relation, projection), triples, protocol=sampled,
                      show=False).metrics() for entity in (half, half[:])]
    assert found[0] == found[1]
