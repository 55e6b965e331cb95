"""Processes of torch.distributed share a table and have layers under DistributedDataParallel."""
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("distributed.py")


@pytest.fixture
def results(interpreter):
    """Starts the script's processes; returns the value that each prints."""
    def run(processes, *arguments):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        started = []
        for rank in range(processes):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(rank),
                           "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
            started.append(subprocess.Popen([interpreter, SCRIPT, *arguments], env=environment, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        outputs = [process.communicate(timeout=300) for process in started]
        assert [process.returncode for process in started] == [0] * processes, outputs
        return [json.loads(out.splitlines()[-1]) for out, _ in outputs if out]

    return run


def test_no_cache_and_no_timing_changes_a_bit(results):
    """The table next to the layers under DistributedDataParallel, or within them."""
    runs = [({"cache_ratio": 0.0}, False, 0), ({"cache_ratio": 0.4, "flush_threads": 1}, False, 3),
            ({"cache_ratio": 1.0, "flush": "sync", "lookahead": 2}, False, 1),
            ({"cache_ratio": 0.2, "cache_policy": "lfu"}, True, 0), ({"cache_ratio": 0.2}, True, 4),
            ({"cache_ratio": 0.3, "flush": "direct"}, False, [0, 3], "queued"),
            ({"cache_ratio": 0.2, "flush": "direct", "hot_ids": list(range(50))}, True, 2, "cpu"),
            # Loops that are left early forget the lookups to come, also those that are planned already.
            ({"cache_ratio": 0.2}, False, 3, None, 5), ({"cache_ratio": 0.2, "flush": "sync"}, True, 5, "queued", 5),
            ({"cache_ratio": 0.2, "flush": "direct"}, False, 4, "queued", 5)]
    found = results(2, "train", json.dumps(runs))
    assert len({digest for of_rank in found for digest in of_rank}) == 1, found


def test_owners_of_rows_train_the_table_of_any_other_ranks(results):
    """Four of them and three, which is no power of two; they look ahead differently far."""
    for processes in (4, 3):
        runs = [({"cache_ratio": 0.2}, False, 0), ({"cache_ratio": 0.2, "flush": "direct"}, False, 3, "queued"),
                ({"cache_ratio": 0.0, "flush": "direct", "lookahead": 1}, True, [5, 0, 2, 1][:processes], "cpu")]
        found = results(processes, "train", json.dumps(runs))
        assert len({digest for of_rank in found for digest in of_rank}) == 1, found


@pytest.mark.cuda
@pytest.mark.parametrize("processes", [2, 4])
def test_gpus_train_the_table_of_processors(results, processes):
    """Whoever stores the rows, whatever the caches hold, and however far each process looks ahead."""
    if torch.cuda.device_count() < processes:
        pytest.skip(f"needs {processes} GPUs")
    runs = [({"cache_ratio": 0.2}, False, 0),
            *(({"cache_ratio": 0.3, "flush": flush}, False, [0, 3, 1, 5][:processes], "gpus")
              for flush in ("direct", "p2f", "sync")),
            ({"cache_ratio": 0.2, "flush": "direct", "hot_ids": list(range(50))}, False, 2, "gpus"),
            ({"cache_ratio": 0.0, "flush": "direct", "lookahead": 1}, False, 4, "gpus", 5)]
    found = results(processes, "train", json.dumps(runs))
    assert len({digest for of_rank in found for digest in of_rank}) == 1, found


@pytest.mark.parametrize("kind", ["queued", pytest.param("gpus", marks=pytest.mark.cuda)])
def test_the_end_of_one_process_is_told_to_those_that_wait_for_its_rows(results, kind):
    if kind == "gpus" and torch.cuda.device_count() < 2:
        pytest.skip("needs 2 GPUs")
    (sentence,) = results(2, "left alone", json.dumps(kind))
    assert re.fullmatch(r"Rank 1 \(process \d+\) has ended\.", sentence), sentence


def test_memory_that_is_out_of_reach_is_a_sentence_in_all_processes(results):
    found = results(2, "out of reach")
    assert found == ["Rank 1 does not reach the memory of the other GPUs (cudaIpcOpenMemHandle failed: invalid "
                     "argument); use flush='p2f'"] * 2


@pytest.mark.parametrize("goes_on", [True, False])
def test_rows_that_one_process_alone_asks_for_are_refused_in_a_sentence(results, goes_on):
    found = results(2, "state of one", json.dumps(goes_on))
    assert "All ranks ask for weight, state_dict" in found[0]
    assert ("goes on with step 3" if goes_on else "rank 1 has left") in found[0]
    assert found[1] == (found[0] if goes_on else "nothing was reported")


def test_the_step_of_the_page_is_that_of_one_process_with_all_batches(results):
    page = Path(__file__).parents[2].joinpath("docs/embedding.md").read_text(encoding="utf-8")
    lines = page.split("model = DistributedDataParallel", 1)[1].split("\n", 1)[1].split("```")[0]
    assert max(results(2, "page", json.dumps(lines))) < 1e-5


def test_a_dense_step_of_several_processes_is_that_of_one_with_all_batches(results):
    found = results(2, "dense")
    assert found[0] == found[1] and found[0]["apart"] < 1e-6, found


def test_a_table_that_cannot_be_made_is_told_to_all(results):
    found = results(2, "too large")
    assert found[0] == found[1] and "host memory" in found[0]


def test_processes_that_give_something_else_are_all_told(results):
    found = results(2, "given otherwise")
    assert found[0] == found[1] and len(found[0]) == 4, found
    assert found[0][0] == ("all processes of a table give the same num_embeddings, but process 0 gives 50 and "
                           "process 1 gives 51")
    assert [sentence.split(", but")[0].split()[-1] for sentence in found[0]] == [
        "num_embeddings", "optimizer", "optimizer", "padding_idx"]
