"""Sampled negatives with Adagrad per element and Adam: runs against torch.optim in float64, and the bits of runs."""

import numpy as np
import pytest
import torch
from devices import make_device
from models.reference import differentiate
from training.conftest import tables

from dglke_frugal.cli.train import configuration
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.batches.subsampling import triple_weights
from dglke_frugal.training.run.session import load
from dglke_frugal.training.step.step_config import step_config
from dglke_frugal.training.train import train

FLAGS = {
    "TransE_l2": ["-adv", "-rc", 0.01],
    "DistMult": ["--loss_genre", "Softmax", "-rc", 0, "--batch_size", 4524, "--neg_sample_size", 29],  # 81 chunks left
    "ComplEx": ["-adv", "-a", 2, "--reciprocal", "-rc", 0.03, "-rn", 2],
    "RotatE": ["-de", "-adv", "--hidden_dim", 28, "--subsampling", "uniq", "--neg_chunk_size", 4]}
OPTIMIZERS = {"adagrad": 0.1, "adam": 0.01}  # with learning rates
STEPS = 7


def arguments(runs, model, optimizer, *flags):
    return ["--model_name", model, "--optimizer", optimizer, "--lr", OPTIMIZERS[optimizer], "--batch_size", 64,
            "--neg_sample_size", 16, "--max_step", STEPS, *FLAGS[model], *flags]


class Table:
    """A table and its optimizer, in float64."""

    def __init__(self, start, optimizer, rate):
        self.weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
        make = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[optimizer]
        self._optimizer = make([self.weight], lr=rate, eps={"adagrad": 1e-10, "adam": 1e-8}[optimizer])

    @property
    def embeddings(self):
        return self.weight.detach().numpy()

    def update(self, ids, gradients):
        """Torch's step on all rows; rows that are not among `ids` then get their earlier values back."""
        self.weight.grad = torch.zeros_like(self.weight).index_add_(0, torch.tensor(ids), torch.tensor(gradients))
        others = np.setdiff1d(np.arange(len(self.weight)), ids)
        tensors = (self.weight.data, *self._optimizer.state[self.weight].values())
        kept = [each for each in tensors if each.dim() == 2]
        before = [each[others].clone() for each in kept]
        first = len(kept) == 1
        self._optimizer.step()
        if first:  # states begin with 0
            tensors = (self.weight.data, *self._optimizer.state[self.weight].values())
            kept = [each for each in tensors if each.dim() == 2]
            before += [torch.zeros_like(before[0])] * (len(kept) - 1)
        for each, rows in zip(kept, before):
            each[others] = rows


def oracle(runs, model, optimizer):
    given, _ = runs.arguments(*arguments(runs, model, optimizer))
    config = configuration(given)[1]
    graph, loss, sizes = load(config), step_config(config).loss, config.batch
    folder = runs(*arguments(runs, model, optimizer, "--max_step", 0))
    found = {name: Table(np.load(folder / f"small_{model}_{name}.npy"), optimizer, OPTIMIZERS[optimizer])
             for name in ("entity", "relation")}
    inverse = graph.n_relations if config.model.reciprocal else 0
    sampler = Sampler(*graph.train, graph.n_entities, graph.n_relations + inverse,
                      SamplerConfig(sizes.batch_size, sizes.negatives, config.run.seed, inverse=inverse,
                                    chunk=sizes.neg_chunk_size or 0),
                      weight=triple_weights(config, graph))
    for step in range(STEPS):
        batch = sampler.batch(step)
        _, leaves = differentiate(model, loss, batch, found["entity"], found["relation"], None, False)
        distinct = np.unique(np.concatenate([batch.head, batch.tail]))
        penalized = np.concatenate([distinct, batch.negative])
        entity = [(np.concatenate([batch.head, batch.tail, batch.negative]),
                   np.concatenate([leaves["head"], leaves["tail"], leaves["negative"]])),
                  (penalized, slope(loss, found["entity"].embeddings[penalized]))]
        relation = [(batch.relation, leaves["relation"]),
                    (batch.relation, slope(loss, found["relation"].embeddings[batch.relation]))]
        for name, parts in (("entity", entity), ("relation", relation)):
            found[name].update(np.concatenate([ids for ids, _ in parts]), np.concatenate([each for _, each in parts]))
    return {name: table.embeddings for name, table in found.items()}


def slope(loss, rows):
    norm = loss.regularization_norm
    return loss.regularization_coefficient * norm * np.abs(rows) ** (norm - 1) * np.sign(rows)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", FLAGS)
def test_a_run_is_that_of_torch_in_float64(runs, model, optimizer):
    expected = oracle(runs, model, optimizer)
    folder = runs(*arguments(runs, model, optimizer))
    start = runs(*arguments(runs, model, optimizer, "--max_step", 0))
    for name, table in expected.items():
        found, before = (np.load(each / f"small_{model}_{name}.npy") for each in (folder, start))
        moved = np.abs(table - before).max()
        assert moved > 3 * OPTIMIZERS[optimizer] * 0.5
        # A first gradient that is nearly 0 moves its number as far as any other, in a direction that rounding decides.
        near = np.isclose(found, table, rtol=0, atol=1e-3 * moved)
        assert near.mean() > 0.999


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["RotatE", "ComplEx"])
def test_runs_have_the_same_bits_wherever_they_are_computed_and_interrupted(runs, model, optimizer, monkeypatch):
    flags = arguments(runs, model, optimizer, "--max_step", 20, "--lr_decay_at", 9)
    expected = tables(runs(*flags))
    for kind in ("cpu", "queued"):
        given, _ = runs.arguments(*flags)
        assert tables(train(configuration(given)[1], None, device=make_device(kind))) == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert tables(runs(*flags)) == expected
    for steps, more in ((8, []), (13, ["--checkpoint_interval", 5])):
        assert tables(runs.resume(runs(*flags, "--max_step", steps, *more), "--max_step", 20)) == expected
    assert tables(runs(*flags, "--optimizer", "row_adagrad")) != expected


@pytest.mark.cuda
@pytest.mark.parametrize("cuda_graphs", ["on", "off"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", FLAGS)
def test_a_gpu_is_near_the_cpu_and_repeats_itself(runs, model, optimizer, cuda_graphs):
    flags = arguments(runs, model, optimizer, "--max_step", 30)
    on_gpu = [*flags, "--gpu", 0, "--cuda_graphs", cuda_graphs]
    folder, expected = runs(*on_gpu), runs(*flags)
    assert tables(runs(*on_gpu)) == tables(folder)
    for path in expected.glob("*.npy"):
        near = np.isclose(np.load(folder / path.name), np.load(path), rtol=0, atol=1e-2 * OPTIMIZERS[optimizer])
        assert near.mean() > 0.99


@pytest.mark.parametrize("flags, says", [
    (["--model_name", "RESCAL"], "with sampled negatives is for ComplEx, DistMult, RotatE, SimplE, TransE, TransE_l1, "
                                 "TransE_l2, and not for RESCAL"),
    (["--num_proc", 2], "trains in one process"),
    (["--flush", "p2f"], "nothing is cached or flushed; leave --flush"),
    (["--cache_ratio", 0.1], "nothing is cached or flushed; leave --flush"),
    (["--row_dtype", "fp16"], "keeps rows in float32")])
def test_what_does_not_go_together(runs, refused, flags, says):
    with refused(says):
        runs("--max_step", 5, "--optimizer", "adam", *flags)
