"""The ratios that benchmarks/several_gpus.py makes of its legs."""
from benchmarks.several_gpus import ratios


def leg(rate):
    return {"triples_per_second": rate}


def test_the_best_of_several_gpus_over_the_best_of_one_by_their_number():
    report = {"fb15k": {"one": leg(2.0), "one_on_device": leg(4.0), "columns_2": leg(5.0), "columns_on_device_2": leg(6.0),
                        "columns_4": leg(8.0), "columns_on_device_4": leg(None), "rows_2": leg(100.0),
                        "vanilla_2": leg(0.5)},
              "large": {"one": leg(None), "columns_2": leg(3.0)}}
    found = ratios(report, [2, 4])
    assert found["n_gpus_over_one"]["fb15k"] == {"2": 1.5, "4": 2.0}
    assert found["n_gpus_over_one"]["20m"] == {"2": None, "4": None}
    assert found["n_gpus_over_vanilla"] == {"2": 12.0, "4": None}
    assert found["two_gpus_over_one_fb15k"] == 1.5 and found["frugal_over_vanilla_two_gpus"] == 12.0
    assert "two_gpus_over_one_fb15k" not in ratios(report, [4])
