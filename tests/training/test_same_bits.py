"""What is only a matter of speed never changes a bit of what a run leaves behind."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training.conftest import Runs, tables

from dglke_frugal.options import CACHE_POLICIES

MODELS = {"TransE_l2": ["-adv"], "RotatE": ["-de", "--neg_deg_sample"], "TransR": ["--hidden_dim", "8"],
          "RESCAL": ["--hidden_dim", "8"]}
COMMON = ["--max_step", 40, "--batch_size", 120, "--neg_sample_size", 40, "--valid", "--eval_interval", 17,
          "--eval_percent", 0.01]

stores = st.fixed_dictionaries(
    {"--cache_ratio": st.sampled_from([0, 0.001, 0.05, 0.5, 1]),
     "--cache_policy": st.sampled_from(CACHE_POLICIES),
     "--lookahead": st.integers(1, 50),
     "--flush": st.sampled_from(["p2f", "sync", "none"]),
     "--flush_threads": st.integers(1, 4),
     "--sampler_threads": st.integers(1, 3),
     "threads": st.integers(1, 3)}
)


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    """Tables by model, from rows that are updated in place by one thread."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for model, flags in MODELS.items():
            runs = Runs(small, tmp_path_factory.mktemp("expected"))
            found[model] = tables(runs("--model_name", model, *flags, *COMMON, "--flush", "none"))
    return found


@given(store=stores, model=st.sampled_from(list(MODELS)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_no_setting_of_the_store_changes_a_bit(store, model, expected, small, tmp_path_factory):
    store = dict(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", str(store.pop("threads")))
        runs = Runs(small, tmp_path_factory.mktemp("runs"))
        flags = [item for pair in store.items() for item in pair]
        assert tables(runs("--model_name", model, *MODELS[model], *COMMON, *flags)) == expected[model]


def test_the_seed_decides(runs):
    one, same, other = (tables(runs("--max_step", 5, "--seed", seed)) for seed in (1, 1, 2))
    assert one == same and one != other
