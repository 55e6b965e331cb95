"""What benchmarks/cache_policies.py tells of lookups."""
import numpy as np
import pytest

from benchmarks import cache_policies


def test_lookups_of_a_static_cache_hit_what_it_holds(monkeypatch):
    monkeypatch.setattr(cache_policies, "DIM", 8)
    rng = np.random.default_rng(3)
    steps = [np.unique(rng.zipf(1.3, 60) % 400) for _ in range(40)]
    rows, offsets = np.concatenate(steps), np.cumsum([0, *map(len, steps)])
    hot = np.argsort(-np.bincount(rows, minlength=400), kind="stable")
    told = cache_policies.of_lookups((offsets, rows, hot, 400), "cpu", "static")

    counted = rows[offsets[20]:]
    # The steps that are looked at ahead are counted when they are planned, so that a few more or less count.
    assert told["hit_share"] == pytest.approx(np.isin(counted, hot[:20]).mean(), abs=0.05)
    assert told["hit_share"] != pytest.approx(np.isin(counted, hot[20:40]).mean(), abs=0.05)
    assert told["steps_per_second"] > 0 and told["planning_us"] > 0
