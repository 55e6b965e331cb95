"""Ranks as threads over shared stores: tables equal the oracle's to the bit, whatever the setting."""
import pytest
from training.parallel.conftest import assert_same
from training.parallel.thread_ranks import (SETTINGS, STEPS, ThreadRanks, run_oracle, step_config,
                                            trained_by_threads)

@pytest.mark.parametrize("model, rule", [*((model, "textbook") for model in (
    "TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "SimplE", "RESCAL", "TransR")),
    ("RESCAL", "dglke"), ("TransR", "dglke")])
def test_two_ranks_equal_one_process_with_their_entries_joined(model, rule):
    config = step_config(model, rule)
    arrays, statistics = trained_by_threads(config, 2, {})
    assert_same(arrays, run_oracle(config, 2))
    for rank in statistics:
        assert rank["gradients_sent"] > 0 and rank["steps"] == STEPS


@pytest.fixture(scope="module")
def expected():
    config = step_config()
    return {ranks: run_oracle(config, ranks) for ranks in (1, 2, 3, 4)}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("flush, slots", SETTINGS, ids=str)
def test_no_setting_changes_a_bit(expected, ranks, flush, slots):
    arrays, _ = trained_by_threads(step_config(), ranks, flush, entity_slots=slots)
    assert_same(arrays, expected[ranks])


@pytest.fixture(scope="module")
def expected_half():
    return {ranks: run_oracle(step_config(), ranks, element="fp16") for ranks in (1, 2, 4)}


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("flush, slots", SETTINGS[:4], ids=str)
def test_half_precision_rows_are_rounded_once_when_all_ranks_have_updated_them(expected_half, ranks, flush, slots):
    arrays, entities = trained_by_threads(step_config(), ranks, flush, entity_slots=slots, element="fp16", delay=0.001)
    assert_same(arrays, expected_half[ranks])
    assert all((rank["gradients_sent"] > 0) == (ranks > 1) for rank in entities)


@pytest.mark.parametrize("model", ["TransE_l1", "ComplEx", "RESCAL", "TransR"])
def test_half_precision_rows_of_every_model(model):
    arrays, _ = trained_by_threads(step_config(model), 2, {}, element="fp16")
    assert_same(arrays, run_oracle(step_config(model), 2, element="fp16"))


@pytest.mark.parametrize("seconds", [0.001, 0.005])
def test_delays_of_ranks_change_nothing(expected, seconds):
    arrays, _ = trained_by_threads(step_config(), 3, {"lookahead": 3}, delay=seconds)
    assert_same(arrays, expected[3])


def test_a_rank_that_fails_stops_the_others_with_its_sentence():
    run = ThreadRanks(step_config(), 3, {"lookahead": 2})
    try:
        run.stores[1]["relation"].fail("rank 1: no more coffee")
        run.run()
        assert len(run.errors) == 3
        assert all("no more coffee" in str(error) for error in run.errors)
    finally:
        run.close()
