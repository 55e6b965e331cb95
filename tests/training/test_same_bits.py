"""What is only a matter of speed never changes a bit of what a run leaves behind."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from training.conftest import Runs, tables

from dglke_frugal.options import CACHE_POLICIES, ROW_DTYPES

MODELS = {"TransE_l2": ["-adv"], "RotatE": ["-de", "--neg_deg_sample"], "ComplEx": ["--neg_deg_sample"],
          "TransR": ["--hidden_dim", "8"], "RESCAL": ["--hidden_dim", "8"]}
COMMON = ["--max_step", 40, "--batch_size", 120, "--neg_sample_size", 40, "--valid", "--eval_interval", 17,
          "--eval_percent", 0.01]

stores = st.fixed_dictionaries(
    {"--cache_ratio": st.sampled_from([0, 0.001, 0.05, 0.5, 1]),
     "--cache_policy": st.sampled_from(CACHE_POLICIES),
     "--lookahead": st.integers(1, 50),
     "--flush": st.sampled_from(["p2f", "sync", "none"]),
     "--flush_threads": st.integers(1, 4),
     "--sampler_threads": st.integers(1, 3),
     "threads": st.integers(1, 3)})


@pytest.fixture(scope="module")
def expected(small, tmp_path_factory):
    """Tables by model and type of rows, from rows that are updated in place by one thread."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for model, dtype in itertools.product(MODELS, ROW_DTYPES):
            runs = Runs(small, tmp_path_factory.mktemp("expected"))
            flags = ["--model_name", model, *MODELS[model], "--row_dtype", dtype, *COMMON]
            found[model, dtype] = flags, tables(runs(*flags, "--flush", "none"))
    return found


@given(store=stores, model=st.sampled_from(list(MODELS)), dtype=st.sampled_from(ROW_DTYPES))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_no_setting_of_the_store_changes_a_bit(store, model, dtype, expected, small, tmp_path_factory):
    store, (flags, wanted) = dict(store), expected[model, dtype]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", str(store.pop("threads")))
        runs = Runs(small, tmp_path_factory.mktemp("runs"))
        assert tables(runs(*flags, *(item for pair in store.items() for item in pair))) == wanted


def test_the_seed_decides(runs):
    one, same, other = (tables(runs("--max_step", 5, "--seed", seed)) for seed in (1, 1, 2))
    assert one == same and one != other
