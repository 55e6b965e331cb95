"""What is saved is what was trained, and a run goes on from it as if nothing had happened."""
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from dglke_frugal import optim
from dglke_frugal.embedding import CacheConfig, Embedding, Uniform
from dglke_frugal.errors import InputError

ROWS, DIM = 50, 6
CACHED = CacheConfig(cache_ratio=0.3)


def make(optimizer=optim.Adagrad(0.1), **settings):
    return Embedding(ROWS, DIM, optimizer, init=Uniform(-1, 1), **settings)


def train(module, first, last):
    for step in range(first, last):
        ids = torch.randint(ROWS, (8,), generator=torch.Generator().manual_seed(step))
        module(ids).pow(2).sum().backward()


@pytest.mark.parametrize("optimizer", [optim.SGD(0.1), optim.RowwiseAdagrad(0.1), optim.Adagrad(0.1)],
                         ids=lambda each: type(each).__name__)
def test_a_loaded_table_goes_on_as_if_nothing_had_happened(tmp_path, optimizer):
    whole, first, second = make(optimizer), make(optimizer, cache=CACHED), make(optimizer, seed=9, cache=CACHED)
    train(whole, 0, 20)
    train(first, 0, 10)
    train(second, 0, 3)
    first.save(tmp_path / "table.safetensors")
    second.load(tmp_path / "table.safetensors")
    train(second, 10, 20)
    for name, values in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], values)


KILLED = """
import sys, torch
sys.path.insert(0, {tests!r})
from embedding.test_embedding_files import make, train, CACHED
module = make(cache=CACHED)
for first in range(0, 1000, 5):
    train(module, first, first + 5)
    module.save({path!r})
    print(first + 5, flush=True)
"""


def test_a_run_that_is_killed_goes_on_from_its_file(tmp_path):
    path = tmp_path / "table.safetensors"
    tests = os.path.dirname(os.path.dirname(__file__))
    run = subprocess.Popen([sys.executable, "-c", KILLED.format(tests=tests, path=str(path))], stdout=subprocess.PIPE,
                           text=True)
    steps = [int(run.stdout.readline()) for _ in range(3)][-1]
    run.send_signal(signal.SIGKILL)
    steps = int((run.communicate()[0].split() or [steps])[-1])
    again, whole = make(cache=CACHED), make()
    again.load(path)
    train(whole, 0, steps)
    if not torch.equal(again.weight, whole.weight):  # it was killed between the next file and its line
        train(whole, steps, steps + 5)
        steps += 5
    assert torch.equal(again.weight, whole.weight)
    train(again, steps, steps + 4)
    train(whole, steps, steps + 4)
    assert torch.equal(again.state_dict()["optimizer_state"], whole.state_dict()["optimizer_state"])


def test_the_files_are_what_other_programs_read(tmp_path):
    module = make(cache=CACHED)
    train(module, 0, 3)
    module.save(tmp_path / "table.npy")
    module.save(tmp_path / "table.safetensors")
    np.testing.assert_array_equal(np.load(tmp_path / "table.npy"), module.weight.numpy())
    written = (tmp_path / "table.safetensors").read_bytes()
    length = int.from_bytes(written[:8], "little")
    header = json.loads(written[8 : 8 + length])
    assert length % 8 == 0 and list(header) == ["weight", "optimizer_state"]
    assert header["weight"] == {"dtype": "F32", "shape": [ROWS, DIM], "data_offsets": [0, 4 * ROWS * DIM]}
    first, last = header["optimizer_state"]["data_offsets"]
    state = np.frombuffer(written[8 + length :][first:last], np.float32).reshape(ROWS, DIM)
    np.testing.assert_array_equal(state, module.state_dict()["optimizer_state"].numpy())


def test_npy_sets_the_state_to_zero(tmp_path):
    module, other = make(), make()
    train(module, 0, 3)
    train(other, 5, 9)
    module.save(tmp_path / "table.npy")
    other.load(tmp_path / "table.npy")
    assert torch.equal(other.weight, module.weight) and not other.state_dict()["optimizer_state"].any()


def test_state_dicts_go_through_torch_and_come_from_torch(tmp_path):
    model = torch.nn.Sequential(make(cache=CACHED), torch.nn.Linear(DIM, 1))
    train(model[0], 0, 5)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    again = torch.nn.Sequential(make(seed=3), torch.nn.Linear(DIM, 1))
    again.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    for name, values in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], values)
    plain = torch.nn.Embedding(ROWS, DIM)
    again[0].load_state_dict(plain.state_dict())
    assert torch.equal(again[0].weight, plain.weight.detach())
    assert not again[0].state_dict()["optimizer_state"].any()


def test_a_state_dict_that_does_not_fit_is_refused():
    module = make()
    before = module.weight.clone()
    with pytest.raises(RuntimeError, match="shape"):
        module.load_state_dict({"weight": torch.zeros(3, DIM)})
    with pytest.raises(RuntimeError, match="Missing"):
        module.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected"):
        module.load_state_dict({**module.state_dict(), "bias": torch.zeros(1)})
    assert torch.equal(module.weight, before)


def damaged(tmp_path):
    """Files that are no table of this shape, with what is reported of them."""
    module = make()
    module.save(tmp_path / "good.safetensors")
    good = (tmp_path / "good.safetensors").read_bytes()
    make(optim.SGD(1)).save(tmp_path / "other.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(good[:-4])
    (tmp_path / "empty.safetensors").write_bytes(b"")
    (tmp_path / "huge.safetensors").write_bytes(b"\xff" * 64)
    (tmp_path / "json.safetensors").write_bytes((4).to_bytes(8, "little") + b"[1,2")
    endless = '{"weight": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}'
    half = '{"weight": {"dtype": "F16", "shape": [0, 4], "data_offsets": [0, 0]}}'
    for name, header in {"list": "[]", "number": endless, "deep": "[" * 100_000, "half": half}.items():
        (tmp_path / f"{name}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "archive.npz", np.zeros(3))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    (tmp_path / "text.npy").write_text("no numbers")
    np.save(tmp_path / "small.npy", np.zeros((3, DIM), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((ROWS, DIM)))
    return {"other.safetensors": "optimizer_state", "cut.safetensors": "whole", "empty.safetensors": "whole",
            "huge.safetensors": "whole", "json.safetensors": "whole", "list.safetensors": "whole",
            "number.safetensors": "whole", "half.safetensors": "holds weight as F16",
            "deep.safetensors": "whole", "empty.npy": "whole", "archive.npy": "whole", "text.npy": "whole",
            "small.npy": "weight", "double.npy": "float64", "absent.npy": "does not exist",
            "table.pt": "safetensors or .npy"}


def test_a_damaged_file_is_refused_and_changes_nothing(tmp_path):
    module = make(cache=CACHED)
    train(module, 0, 3)
    before = module.weight.clone()
    for name, sentence in damaged(tmp_path).items():
        with pytest.raises(InputError, match=sentence):
            module.load(tmp_path / name)
    assert torch.equal(module.weight, before)


def test_a_folder_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        make().save(tmp_path / "no" / "table.npy")
