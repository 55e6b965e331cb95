"""Ranks that something else has started, with torchrun's environment variables."""

import uuid

import pytest
from training.parallel.conftest import assert_same, trained


def environment(rank, count, **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": uuid.uuid4().hex, **more}


@pytest.mark.parametrize("gpu", [[], ["--gpu", 0]], ids=["cpu", "device"])
def test_they_find_each_other_and_equal_the_oracle(ranks, gpu):
    ranks.gpu = "devices.make_device('queued')"
    arguments, folder = ranks.arguments("--max_step", 12, *gpu)
    run = environment(0, 3)["TORCHELASTIC_RUN_ID"]
    processes = [ranks.start(arguments, interpreter=ranks.interpreter,
                             **environment(rank, 3, TORCHELASTIC_RUN_ID=run)) for rank in (2, 1, 0)]
    outputs = [process.communicate(timeout=180)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert_same(trained(folder), ranks.oracle(folder, "--num_proc", 3, steps=12))


@pytest.mark.parametrize("given, more, sentence", [
    (["--num_proc", 3], {}, "torchrun starts 2 ranks and --num_proc says 3"),
    (["--gpu", 0, 1, 2], {}, "cannot be shared out over 3 GPUs")])
def test_contradictions_are_refused(ranks, given, more, sentence):
    arguments, _ = ranks.arguments("--max_step", 1, *given)
    assert sentence in ranks.end(arguments, code=2, **environment(0, 2, **more))
