"""What benchmarks/run_kernels.py tells of a watched run."""
import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.run_kernels import ROOT, Seen, by_step, kernel_name, run


def test_microseconds_of_a_step_are_sums_over_steps():
    seen = [Seen("compare_kernel", 0.0, 4.0), Seen("update_kernel", 5.0, 2.0), Seen("barrier_kernel", 7.0, 1.0),
            Seen("compare_kernel", 10.0, 6.0), Seen("barrier_kernel", 16.0, 2.0), Seen("update_kernel", 18.0, 4.0)]
    assert by_step(seen) == {"steps": 2, "span_us": 11.0,
                             "kernels": {"compare_kernel": 5.0, "update_kernel": 3.0, "barrier_kernel": 1.5}}


def test_what_trains_nothing_tells_nothing():
    assert by_step([]) is None
    assert by_step([Seen("gather_kernel", 0.0, 1.0)]) is None


def test_a_command_that_uses_no_gpu_runs_and_says_so(tmp_path):
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n", encoding="utf-8")
    command = [
        sys.executable, "-m", "benchmarks.run_kernels", "--json", str(tmp_path / "found.json"), "--after", "0", "train",
        "--dataset", "mine", "--data_path", str(tmp_path), "--format", "raw_udd_hrt", "--data_files", "train.txt",
        "--model_name", "DistMult", "--hidden_dim", "8", "--batch_size", "3", "--neg_sample_size", "3",
        "--max_step", "2", "--save_path", str(tmp_path / "ckpts")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no process of this command used a GPU" in done.stderr
    report = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == 0 and report["processes"] == []


@pytest.mark.cuda
def test_each_rank_of_a_run_is_watched(tmp_path):
    random = np.random.default_rng(0)
    triples = np.stack([random.integers(0, most, 5000) for most in (500, 9, 500)], axis=1)
    np.savetxt(tmp_path / "train.txt", triples, "%d", "\t")
    found = run(["train", "--dataset", "mine", "--data_path", str(tmp_path), "--format", "raw_udd_hrt", "--data_files",
                 "train.txt", "--model_name", "TransE_l2", "--hidden_dim", "96", "--batch_size", "256",
                 "--neg_sample_size", "64", "--max_step", "40000", "--gpu", "0", "0", "--parallel", "columns",
                 "--no_save_emb", "--save_path", str(tmp_path / "ckpts")], after=1.0, seconds=0.2)
    assert found["exit_code"] == 0 and len(found["processes"]) == 2
    for process in found["processes"]:
        assert process["steps"] > 0
        assert {"update_kernel", "barrier_kernel", "prepare_kernel"} <= process["kernels"].keys()


@pytest.mark.parametrize("signature, name", [
    ("void frugal::(anonymous namespace)::update_kernel<4>(float*, int)", "update_kernel"),
    ("frugal::(anonymous namespace)::gather_kernel(float*)", "gather_kernel"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma_execute_kernel", "gemm"),
    ("void (anonymous namespace)::softmax_warp_forward<float, 8, false>(float*, bool const*)", "softmax_warp_forward"),
    ("void at::native::elementwise_kernel<128, at::native::Op<float>>(int, at::native::Op<float>)",
     "elementwise_kernel"),
    ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
])
def test_a_kernel_has_its_own_name(signature, name):
    assert kernel_name(signature) == name
