"""Runs of several processes: tables and optimizer states equal the plain oracle's to the bit."""
import json

import pytest
from training.parallel.conftest import NEEDS_METIS, Ranks, assert_same, in_floats, trained

from dglke_frugal.training.run.ranker import Ranker
from dglke_frugal.training.tables.tables import Tables
from dglke_frugal.training.run.session import load

STEPS = 30
DELAYS = "time.sleep(random.Random(rank * 1000 + step).expovariate(300))"


@pytest.mark.parametrize("processes, given, suffering", [
    (2, ["--cache_ratio", 0.3, "--flush_threads", 1], "pass"),
    (3, ["--cache_ratio", 0.1, "--lookahead", 1], DELAYS),
    (4, ["--rel_part", "--cache_policy", "lfu", "--lookahead", 25, "--flush_threads", 3], "pass"),
    (2, ["--flush", "sync", "--rel_part"], DELAYS),
    (2, ["--flush", "none"], "pass"),
    pytest.param(2, ["--partition", "metis", "--cache_policy", "lfu"], "pass", marks=NEEDS_METIS),
    (2, ["--model_name", "TransR", "--hidden_dim", 6, "--rel_part"], "pass"),
    (2, ["--model_name", "RESCAL", "--hidden_dim", 6, "--score_rule", "dglke"], "pass"),
    (3, ["--reciprocal", "--rel_part", "--cache_ratio", 0.2], "pass"),
    (2, ["--subsampling", "base", "--cache_ratio", 0.3], "pass"),
    (3, ["--subsampling", "uniq", "--rel_part", "--neg_chunk_size", 4], DELAYS),
    pytest.param(8, ["--cache_ratio", 0.2], DELAYS, marks=pytest.mark.slow),
    (11, ["--batch_size", 20], "pass"),  # more than GPUs can be
], ids=str)
def test_the_run_equals_the_oracle(ranks, processes, given, suffering):
    flags = ["--num_proc", processes, "--max_step", STEPS, *given]
    folder, output = ranks.run(*flags, suffering=suffering)
    assert_same(trained(folder), ranks.oracle(folder, *flags, steps=STEPS))
    for rank in range(processes):
        assert f"[proc {rank}][Train]({STEPS}/{STEPS}) average loss:" in output
    reports = json.loads((folder / "result.json").read_text())["ranks"]
    assert [report["rank"] for report in reports] == list(range(processes))
    assert all(report["steps"] == STEPS and report["gradients"] > 0 for report in reports)


@pytest.mark.parametrize("processes, given", [
    (2, ["--row_dtype", "fp16", "--cache_ratio", 0.3]), (3, ["--row_dtype", "fp16", "--rel_part", "--flush", "sync"]),
    (2, ["--row_dtype", "fp16", "--flush", "none", "--model_name", "TransR", "--hidden_dim", 6])], ids=str)
def test_half_precision_rows_equal_the_oracle_also_when_they_are_gone_on_with(ranks, processes, given):
    flags = ["--num_proc", processes, *given]
    folder, _ = ranks.run(*flags, "--max_step", 13, "--valid", "--eval_interval", 10, "--eval_percent", 0.05,
                          suffering=DELAYS)
    ranks.run("--max_step", STEPS, "--lookahead", 3, "--cache_ratio", 0.1, resume=folder)
    arrays = trained(folder)
    assert arrays["entity"].itemsize == 2
    assert_same(in_floats(arrays), ranks.oracle(folder, *flags, steps=STEPS))


@pytest.mark.slow
@pytest.mark.parametrize("processes, given", [
    (2, ["--cache_ratio", 0.01]),
    (3, ["--cache_ratio", 0, "--flush_threads", 1]),
    (4, ["--rel_part", "--cache_policy", "lfu", "--lookahead", 2]),
    (8, ["--cache_ratio", 1, "--cache_policy", "lfu", "--flush_threads", 3]),
], ids=str)
def test_runs_on_fb15k_equal_the_oracle(fb15k, tmp_path, processes, given):
    ranks, steps = Ranks(fb15k, tmp_path), 8
    flags = ["--num_proc", processes, "--max_step", steps, *given, "--hidden_dim", 40, "--batch_size", 200]
    folder, _ = ranks.run(*flags, suffering=DELAYS)
    assert_same(trained(folder), ranks.oracle(folder, *flags, steps=steps))


@pytest.mark.parametrize("sampled", [[], ["--neg_sample_size_eval", 50]], ids=["all", "sampled"])
def test_evaluation_by_three_ranks_is_that_of_one(ranks, sampled):
    common = ["--max_step", 20, "--valid", "--eval_interval", 10, "--test", "--eval_percent", 0.1, *sampled]
    folder, output = ranks.run("--num_proc", 3, *common)
    lines = [line for line in output.splitlines() if line.startswith("[0]Test average")]
    assert len(lines) == 5 and output.count("[0]Valid average MRR") == 2
    config, arrays = ranks.config(*common), trained(folder)
    graph = load(config)
    tables = Tables.create(config, graph.n_entities, graph.n_relations, 3)
    for name, store in tables.stores.items():
        store.embeddings[:] = arrays[name]
    metrics = Ranker(config, graph).rank("Test", graph.test, tables)
    assert lines == [f"[0]Test average {name}: {value}" for name, value in metrics.named().items()]


def test_another_number_of_ranks_or_partition_is_refused(ranks):
    folder, _ = ranks.run("--num_proc", 2, "--max_step", 5)
    for changed in (["--num_proc", 3], ["--rel_part"]):
        output = ranks.end(["--resume", folder, "--max_step", 10, *changed], code=2)
        assert "of another configuration" in output
    folder, _ = ranks.run("--max_step", 10, "--flush_threads", 3, "--cache_ratio", 0.5, resume=folder)
    assert_same(trained(folder), ranks.oracle(folder, "--num_proc", 2, steps=10))
