"""The ratios that benchmarks/several_gpus.py makes of its legs."""
import json

import numpy as np

from benchmarks import several_gpus
from benchmarks.several_gpus import ratios, stall_shares
from benchmarks.skewed_graph import HEADS, SkewedGraph


def leg(rate):
    return {"triples_per_second": rate}


def test_the_best_of_several_gpus_over_the_best_of_one_by_their_number():
    report = {"fb15k": {"one": leg(2.0), "one_on_device": leg(4.0),
                        "columns_2": leg(5.0), "columns_on_device_2": leg(6.0),
                        "columns_4": leg(8.0), "columns_on_device_4": leg(None), "rows_2": leg(2.0),
                        "rows_meet_2": leg(3.0), "vanilla_2": leg(0.5)},
              "large": {"one": leg(None), "columns_2": leg(3.0)}}
    found = ratios(report, [2, 4])
    assert found["n_gpus_over_one"]["fb15k"] == {"2": 1.5, "4": 2.0}
    assert found["n_gpus_over_one"]["20m"] == {"2": None, "4": None}
    assert found["n_gpus_over_vanilla"] == {"2": 12.0, "4": None}
    assert found["two_gpus_over_one_fb15k_rows"] == 0.75
    assert found["two_gpus_over_one_fb15k"] == 1.5 and found["frugal_over_vanilla_two_gpus"] == 12.0
    assert "two_gpus_over_one_fb15k" not in ratios(report, [4])


def test_what_a_cache_gains_is_over_none_and_by_the_number_of_gpus():
    report = {"large": {"columns_2": leg(6.0), "columns_fp16_2": leg(9.0), "columns_uncached_2": leg(4.0),
                        "columns_4": leg(8.0)}}
    assert ratios(report, [2, 4])["cache_over_none"] == {"2": 1.5, "4": None}


def test_the_skewed_graph_is_compared_by_the_number_of_gpus():
    report = {"skewed": {"one_on_device": leg(2.0), "columns_on_device_2": leg(3.0), "columns_on_device_4": leg(5.0)}}
    assert ratios(report, [2, 4])["skewed_gpus_over_one"] == {"2": 1.5, "4": 2.5}


def test_the_skewed_graph_has_two_large_relations_and_few_heads():
    graph = SkewedGraph()
    triples = graph.triples(0, 100_000)
    shares = np.bincount(triples.relation, minlength=graph.n_relations) / 100_000
    assert len(shares) == 76 and abs(shares[0] - 0.42) < 0.01 and abs(shares[1] - 0.21) < 0.01
    assert triples.head.max() < HEADS <= triples.tail.min() and triples.tail.max() < graph.n_entities
    assert 0.003 < np.bincount(triples.tail).max() / 100_000 < 0.007


def test_what_p2f_gains_data_parallel_and_what_it_waits_for():
    report = {"large": {"one": leg(4.0), "rows_meet_no_peer_2": {**leg(5.0), "stall_share": 0.25},
                        "rows_no_peer_2": leg(4.0), "rows_sync_no_peer_2": leg(2.5)}}
    found = ratios(report, [2])
    assert found["p2f_over_sync_two_gpus"] == 2.0 and found["stall_share_two_gpus"] == 0.25
    report["large"]["rows_meet_no_peer_2"]["stall_share"] = 0.0  # which is a share, too
    assert ratios(report, [2])["stall_share_two_gpus"] == 0.0
    report["large"]["rows_meet_uncached_no_peer_2"] = {**leg(6.0), "stall_share": 0.1}  # the best way
    assert ratios(report, [2])["stall_share_two_gpus"] == 0.1 and ratios(report, [2])["p2f_over_sync_two_gpus"] == 2.4
    assert found["two_gpus_over_one_20m_rows"] == 1.25 and found["two_gpus_over_one_fb15k_rows"] is None


def test_the_stall_of_each_rank_is_read_from_the_result_of_the_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(json.dumps({"ranks": [{"stall_share": 0.5}, {"stall_share": 0.25}]}))
    assert stall_shares(tmp_path) == [0.5, 0.25]


def test_only_legs_that_are_named_are_measured(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(several_gpus, "measure", lambda flags, *_: asked.append(flags[:2]) or leg(2.0))
    legs = several_gpus.Legs(tmp_path / "ranks.json", [0, 1], [2], 10, only=["large:columns_*_2", "fb15k:one"])
    for part, name, count in (("large", "columns_whole", 2), ("large", "columns_whole", 1), ("fb15k", "one", 1),
                              ("fb15k", "one_all_cached", 1), ("fb15k", "columns_own", 2), ("fb15k", "one", 1)):
        legs.leg(part, name, [part, name], count=count)
    assert asked == [["large", "columns_whole"], ["fb15k", "one"]]
