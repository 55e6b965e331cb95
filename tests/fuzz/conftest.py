"""Fuzzers: each test draws its input from `fuzz_seed`. CI tries a few seeds of each; DGLKE_FRUGAL_FUZZ=50 tries fifty
times as many."""
import os


def pytest_configure(config):
    config.addinivalue_line("markers", "fuzz(seeds): how many seeds CI tries")


def pytest_generate_tests(metafunc):
    if "fuzz_seed" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("fuzz")
        seeds = marker.kwargs.get("seeds", 3) if marker else 3
        metafunc.parametrize("fuzz_seed", range(seeds * int(os.environ.get("DGLKE_FRUGAL_FUZZ", "1"))))
