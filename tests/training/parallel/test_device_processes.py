"""Whole runs of several processes on a GPU that they share, and on the CPU as a device."""
import json
import os
import re
import signal

import numpy as np
import pytest
from devices import CUDA
from training.parallel.conftest import Ranks, assert_same, last_line, trained

from dglke_frugal import _native

STEPS = 30
DELAYS = "time.sleep(random.Random(rank * 1000 + step).expovariate(300))"
SETTINGS = {
    2: [["--cache_ratio", 0.3, "--cache_policy", "lfu", "--flush", "sync"],
        ["--cache_ratio", 0, "--lookahead", 1, "--flush_threads", 1, "--flush", "p2f"],
        ["--cache_ratio", 0.1, "--cache_policy", "lfu"]],
    4: [["--cache_ratio", 1, "--lookahead", 25, "--flush_threads", 3, "--flush", "p2f"],
        ["--flush", "none"]]}


@pytest.fixture
def gpu_ranks(small, tmp_path, interpreter, request):
    """Runs on the device that the test names: "queued", or "cuda"."""
    if request.param == "cuda":
        return Ranks(small, tmp_path)
    ranks = Ranks(small, tmp_path, interpreter)
    ranks.gpu = f"devices.make_device({request.param!r})"
    return ranks


on_both = pytest.mark.parametrize("gpu_ranks", ["queued", CUDA], indirect=True)
on_gpu = pytest.mark.parametrize("gpu_ranks", [CUDA], indirect=True)


def cases_on(device, *values):
    """Cases on a device. In the place of a GPU there are fewer: each of their processes imports torch, on two cores."""
    return [pytest.param(device, value, marks=[pytest.mark.cuda] if device == "cuda" else []) for value in values]


def losses(output):
    """Everything that the ranks said of losses, in a fixed order."""
    lines = re.findall(r"(\[proc \d+\]\[Train\]\(\d+/\d+\) average \w+): (\S+?)(?=\[|\n|$)", output)
    return dict(sorted((name, float(value)) for name, value in lines))


@pytest.mark.parametrize("gpu_ranks, count, given, settings", [
    ("queued", 2, [], SETTINGS[2][:1]),  # more of them in test_stores
    ("queued", 2, ["--row_dtype", "fp16"], SETTINGS[2][1:2]),
    pytest.param("cuda", 2, [], SETTINGS[2], marks=pytest.mark.cuda),
    pytest.param("cuda", 2, ["--row_dtype", "fp16"], SETTINGS[2][1:], marks=pytest.mark.cuda),
    pytest.param("cuda", 4, ["--rel_part", "-adv"], SETTINGS[4], marks=pytest.mark.cuda),
], indirect=["gpu_ranks"], ids=["queued", "queued-fp16", "cuda-2", "cuda-2-fp16", "cuda-4"])
def test_no_setting_changes_a_bit(gpu_ranks, count, given, settings):
    """Tables are those of CPU ranks; so are losses, but for the order of their sums."""
    flags = ["--max_step", STEPS, *given]
    on_cpu, messages_on_cpu = gpu_ranks.run("--num_proc", count, *flags)
    folder, messages = gpu_ranks.run("--gpu", *[0] * count, *flags)
    found, wanted = losses(messages), losses(messages_on_cpu)
    assert len(found) == 4 * 3 * count and found.keys() == wanted.keys()
    np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-5)
    reports = json.loads((folder / "result.json").read_text())["ranks"]
    assert all(report["steps"] == STEPS and report["gradients"] > 0 for report in reports)
    expected = trained(on_cpu)
    assert_same(trained(folder), expected)
    for setting in settings:
        folder, _ = gpu_ranks.run("--gpu", 0, "--num_proc", count, *flags, *setting, suffering=DELAYS)
        assert_same(trained(folder), expected)


@pytest.mark.parametrize("gpu_ranks, count", cases_on("queued", 3) + cases_on("cuda", 2, 3), indirect=["gpu_ranks"])
def test_devices_that_synchronise_in_each_step_change_nothing(gpu_ranks, count):
    """With delays, a validation, and a resumed run that waits at gates again."""
    expected = trained(gpu_ranks.run("--num_proc", count, "--max_step", STEPS)[0])
    given = ["--gpu", *[0] * count]
    folder, output = gpu_ranks.run(*given, "--cache_ratio", 0.1, "--max_step", STEPS - 9, "--valid", "--eval_interval",
                                   8, "--eval_percent", 0.05, suffering=DELAYS)
    assert output.count("[0]Valid average MRR") == 2
    reports = json.loads((folder / "result.json").read_text())["ranks"]
    assert all(report["gradients"] > 0 for report in reports)
    gpu_ranks.run("--max_step", STEPS - 4, "--cache_ratio", 0, resume=folder)
    gpu_ranks.run("--max_step", STEPS, "--flush", "p2f", resume=folder)
    assert_same(trained(folder), expected)


@on_gpu
@pytest.mark.skipif(len(_native.cuda_devices(with_free_memory=False)[0]) < 2, reason="this machine has no second GPU")
def test_a_gpu_for_each_rank(gpu_ranks):
    flags = ["--max_step", STEPS, "--cache_ratio", 0.1]
    expected = trained(gpu_ranks.run("--num_proc", 4, *flags)[0])
    for more in ([], ["--peer", "off"], ["--flush", "p2f"], ["--flush", "p2f", "--peer", "off"]):
        assert_same(trained(gpu_ranks.run("--num_proc", 4, "--gpu", 0, 1, *flags, *more)[0]), expected)


@pytest.mark.parametrize("gpu_ranks, given", cases_on("queued", ["RESCAL", "--score_rule", "dglke"], ["TransR"]) +
                         cases_on("cuda", ["RESCAL"], ["RESCAL", "--score_rule", "dglke"], ["TransR"]),
                         indirect=["gpu_ranks"], ids=str)
def test_matrices_are_near_the_cpus_and_no_setting_changes_a_bit(gpu_ranks, given):
    flags = ["--model_name", *given, "--hidden_dim", 6, "--max_step", STEPS]
    on_cpu = trained(gpu_ranks.run("--num_proc", 2, *flags)[0])
    expected = trained(gpu_ranks.run("--gpu", 0, 0, *flags)[0])
    for name, array in expected.items():
        np.testing.assert_allclose(array, on_cpu[name], rtol=2e-3, atol=2e-4, err_msg=name)
    folder, _ = gpu_ranks.run("--gpu", 0, 0, *flags[:-1], STEPS - 9, "--cache_ratio", 0.1, "--peer", "off",
                              suffering=DELAYS)
    gpu_ranks.run("--max_step", STEPS, "--flush", "p2f", resume=folder)
    assert_same(trained(folder), expected)


@on_gpu
@pytest.mark.skipif(len(_native.cuda_devices(with_free_memory=False)[0]) < 2, reason="this machine has no second GPU")
@pytest.mark.parametrize("model", ["RESCAL", "TransR"])
def test_matrices_on_a_gpu_for_each_rank(gpu_ranks, model):
    flags = ["--model_name", model, "--hidden_dim", 6, "--max_step", STEPS]
    expected = trained(gpu_ranks.run("--gpu", 0, 0, *flags)[0])
    for more in ([], ["--peer", "off"]):
        assert_same(trained(gpu_ranks.run("--gpu", 0, 1, *flags, *more)[0]), expected)


@pytest.mark.parametrize("gpu_ranks, element", cases_on("queued", "fp16") + cases_on("cuda", "fp32", "fp16"),
                         indirect=["gpu_ranks"])
def test_a_validation_and_a_resumed_run_change_nothing(gpu_ranks, element):
    given = ["--gpu", 0, 0, "--checkpoint_interval", 7, "--row_dtype", element]
    expected = trained(gpu_ranks.run(*given, "--max_step", 17)[0])
    folder, output = gpu_ranks.run(*given, "--max_step", 9, "--valid", "--eval_interval", 4, "--eval_percent", 0.05)
    assert output.count("[0]Valid average MRR") == 2
    _, output = gpu_ranks.run("--max_step", 17, "--lookahead", 3, "--test", "--eval_percent", 0.05, resume=folder)
    assert_same(trained(folder), expected)
    assert "[0]Test average MRR" in output


@on_both
@pytest.mark.parametrize("given", [[], ["--flush", "p2f"]], ids=" ".join)
def test_a_rank_that_is_killed_stops_all(gpu_ranks, given):
    process, _, others = gpu_ranks.begin("--gpu", 0, 0, *given)
    os.kill(others[1], signal.SIGKILL)
    assert re.search("Rank 1 .*has ended", last_line(process, others))


BREAK = "if rank == 1 and step == 40: import torch; torch.zeros(1, device='cuda')[torch.tensor([5], device='cuda')]"


@on_gpu
def test_a_gpu_that_fails_stops_all(gpu_ranks):
    process, _, others = gpu_ranks.begin("--gpu", 0, 0, suffering=BREAK)
    assert re.search("Rank 1.*the device failed.*CUDA", last_line(process, others))


def test_a_device_that_fails_stops_all(ranks):
    ranks.gpu = "devices.FailingDevice(60 if rank == 1 else -1)"
    arguments, _ = ranks.arguments("--gpu", 0, 0, "--max_step", 1_000_000)
    process = ranks.start(arguments, interpreter=ranks.interpreter)
    assert re.search("Rank 1.*the device.*failed.*the bus is gone", last_line(process, {}))
