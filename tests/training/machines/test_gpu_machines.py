"""Machines that compute on a GPU each, with rows in host memory, have the files of one machine."""
import pytest
from training.machines.conftest import at_step
from training.parallel.conftest import assert_same, trained

OWN_GPU = """
if "RANK" in os.environ:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[int(os.environ["RANK"])]
"""


@pytest.mark.parametrize("count, given", [
    (2, []), (3, ["--negatives", "local", "--partition", "range"]),
    (2, ["--model_name", "ComplEx", "--row_dtype", "fp16"]),
    (2, ["--model_name", "RotatE", "-de", "--neg_deg_sample", "--subsampling", "base"]),
], ids=["hash", "range", "fp16", "rotate"])
def test_a_device_computes_what_the_cpu_does(machines, count, given):
    partition = [] if "--partition" in given else ["--partition", "hash"]
    machines.gpu = "devices.make_device('queued')"
    folder, outputs = machines.run_all(count, "--max_step", 12, "--gpu", 0, *given)
    machines.gpu = None
    one, _ = machines.run("--max_step", 12, "--num_proc", count, *partition, *given)
    assert_same(trained(folder), trained(one))


def test_a_model_without_kernels_of_its_own_is_refused(machines):
    for said in machines.refused_by_all(2, "--gpu", 0, "--model_name", "RESCAL"):
        assert "and not RESCAL; leave --gpu out" in said


@pytest.mark.cuda
@pytest.mark.parametrize("given", [
    [], ["--matmul", "tf32x3"], ["--model_name", "ComplEx", "--negatives", "local"], ["--row_dtype", "fp16"],
], ids=["fp32", "tf32x3", "local", "fp16"])
def test_two_gpus_as_machines_have_the_bits_of_two_gpus_of_one(machines, given):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    machines.use_gpus()
    flags = ["--max_step", 30, "--partition", "hash", *given]
    folder, _ = machines.run_all(2, *flags, "--gpu", 0, first=OWN_GPU)
    one, _ = machines.run(*flags, "--gpu", 0, 1, "--parallel", "rows")
    assert_same(trained(folder), trained(one))


@pytest.mark.cuda
def test_a_killed_machine_with_a_gpu_is_named(machines):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    machines.use_gpus()
    arguments, _ = machines.arguments("--max_step", 100, "--gpu", 0)
    processes = machines.start_all(2, arguments, first=OWN_GPU,
                                   suffering=at_step(50, 1, "os.kill(os.getpid(), signal.SIGKILL)"))
    processes[1].wait(timeout=120)
    codes, outputs = machines.end_all(processes)
    assert codes[0] == 1 and "machine 1 (" in outputs[0].splitlines()[-1], outputs
    assert "frame #" not in outputs[0] and "Traceback" not in outputs[0], outputs
