"""--save_dtype: runs whose saved entities are float16, and everything that reads them."""

import json

import numpy as np
import pytest
from training.conftest import tables

import dglke_frugal
from dglke_frugal.cli import evaluate as eval_command
from dglke_frugal.cli.main import main
from dglke_frugal.store.embedding_store import to_float16

STEPS = ["--max_step", 60, "--log_interval", 20]
HALVES = ["--save_dtype", "fp16"]


def entities(folder, model="TransE_l2"):
    return np.load(folder / f"small_{model}_entity.npy")


def test_the_file_holds_the_nearest_half_precision_of_entities_alone(runs):
    exact, saved = runs(*STEPS), runs(*STEPS, *HALVES)
    assert entities(exact).dtype == np.float32 and entities(saved).dtype == np.float16
    np.testing.assert_array_equal(entities(saved), entities(exact).astype(np.float16))
    relations = [np.load(folder / "small_TransE_l2_relation.npy") for folder in (exact, saved)]
    assert relations[1].dtype == np.float32
    np.testing.assert_array_equal(*relations)


def test_half_precision_rows_lose_nothing_and_are_gone_on_with_to_the_bit(runs):
    rows = ["--row_dtype", "fp16"]
    exact, saved = runs(*STEPS, *rows), runs(*STEPS, *rows, *HALVES)
    np.testing.assert_array_equal(entities(saved).astype(np.float32), entities(exact))
    for folder in (exact, saved):
        runs.resume(folder, "--max_step", 90)
    np.testing.assert_array_equal(entities(saved).astype(np.float32), entities(exact))


def test_a_run_goes_on_from_rounded_rows_and_says_so_or_from_a_checkpoint(runs, capsys):
    folder = runs(*STEPS, *HALVES)
    before = entities(folder)
    runs.resume(folder, "--max_step", 61)
    assert "goes on from rounded rows" in capsys.readouterr().out
    assert (entities(folder) != before).any()
    kept = runs(*STEPS, *HALVES, "--checkpoint_interval", 30)
    runs.resume(kept, "--max_step", 90, "--save_dtype", "fp32")
    assert "rounded" not in capsys.readouterr().out
    assert tables(kept) == tables(runs("--max_step", 90, "--log_interval", 20))


@pytest.mark.parametrize("model, flags", [("TransE_l2", []), ("RotatE", ["-de"]), ("TransR", ["--hidden_dim", 8])])
def test_what_reads_a_run_reads_it(runs, tmp_path, model, flags):
    folder = runs("--model_name", model, *flags, *STEPS, *HALVES, "--row_dtype", "fp16", "--test")
    run = dglke_frugal.load(folder)
    assert run.model.entity.dtype == np.float32 and len(run.tails(0, 0, k=3)) == 3
    eval_command.main(["--model_path", str(folder), "--json", str(tmp_path / "eval.json")])
    trained = json.loads((folder / "result.json").read_text())["test"]
    assert json.loads((tmp_path / "eval.json").read_text())["metrics"]["MRR"] == pytest.approx(trained["MRR"], abs=1e-9)
    main(["report", str(folder)])
    main(["export", str(folder), str(tmp_path / "run.safetensors")])
    assert (tmp_path / "run.safetensors").stat().st_size > 4 * run.model.entity.size
    warm = runs("--model_name", model, *flags, "--max_step", 0, "--init_from", folder)
    np.testing.assert_array_equal(entities(warm, model), entities(folder, model).astype(np.float32))


def test_large_numbers_become_the_largest_half_and_others_stay():
    values = np.float32([1e6, -1e6, 65519, 0.1, np.inf, -np.inf, np.nan, 0, 3e-8])
    with pytest.warns(UserWarning, match="3 numbers of a table .* use --save_dtype fp32"):
        found = to_float16(values)
    np.testing.assert_array_equal(found, np.float16([65504, -65504, 65504, 0.1, np.inf, -np.inf, np.nan, 0, 6e-8]))
