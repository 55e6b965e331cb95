"""Random configurations, each trained under two random settings of the store: equal bytes of all that a run learns, or
the same error."""

import numpy as np
import pytest

from dglke_frugal.cli.train import main
from dglke_frugal.options import CACHE_POLICIES, FLUSH_MODES, OPTIMIZERS

MODULE = '''
import torch
from dglke_frugal.models import TorchModel


class Weighted(TorchModel, torch.nn.Module):
    """With parameters and random numbers."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.bias = torch.nn.Parameter(torch.rand(3))
        self.dropout = torch.nn.Dropout(0.2)

    def score(self, head, relation, tail):
        return (self.dropout(head) * relation * tail).sum(-1) + self.bias.sum()
'''
BUILT_IN = ("TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RESCAL", "RotatE", "SimplE", "TransR")
LOSSES = ([], ["-adv"], ["--loss_genre", "Hinge"], ["--loss_genre", "Logistic", "-pw"], ["--loss_genre", "BCE"],
          ["--loss_genre", "Hinge", "-pw"], ["--loss_genre", "Softmax"])
ON_CPU = [mode for mode in FLUSH_MODES if mode != "direct"]


def write_graph(folder, rng):
    """A graph of a few dozen entities, some of them in most triples; all splits have some."""
    entities, relations, count = rng.integers(8, 90), rng.integers(1, 7), rng.integers(40, 400)
    skewed = (entities * rng.random((count, 2)) ** rng.uniform(1, 4)).astype(int)
    triples = np.unique(np.column_stack([skewed[:, 0], rng.integers(0, relations, count), skewed[:, 1]]), axis=0)
    rng.shuffle(triples)
    lines = [f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in triples]
    for name, part in (("train", lines[8:]), ("valid", lines[:4]), ("test", lines[4:8])):
        (folder / f"{name}.txt").write_text("".join(part))


def pick(rng, values):
    return values[rng.integers(len(values))]


def random_configuration(rng):
    """Flags on which the numbers depend. Some go together with no others, which is refused."""
    model = pick(rng, (*BUILT_IN, "fuzzed_models:Weighted"))
    processes = 2 if rng.random() < 0.05 else 1
    flags = ["--model_name", model, "--hidden_dim", 2 * rng.integers(1, 12), "--lr", pick(rng, (0.01, 0.1, 1.0)),
             "--seed", rng.integers(1000), "--max_step", rng.integers(1, 30), "--batch_size", rng.integers(1, 40),
             "--neg_sample_size", rng.integers(1, 20), "-rc", pick(rng, (0, 1e-6, 1e-2)), *pick(rng, LOSSES)]
    flags += {"RotatE": ["-de"], "SimplE": ["-de", "-dr"]}.get(model, [])
    for chance, more in ((0.2, ["--regularization_norm", pick(rng, (1, 2, 4))]),
                         (0.2, ["--neg_deg_sample"]),
                         (0.2, ["--exclude_positive"]),
                         (0.2, ["--neg_chunk_size", rng.integers(1, 9)]),
                         (0.2, ["--subsampling", pick(rng, ("base", "uniq"))]),
                         (0.2, ["--reciprocal"]),
                         (0.3, ["--row_dtype", "fp16"]),
                         (0.3, ["--optimizer", pick(rng, OPTIMIZERS)]),
                         (0.1, ["--init", "normal", "--init_scale", 0.2]),
                         (0.2, ["--lr_decay_at", rng.integers(1, 20)]),
                         (0.2, ["--valid", "--eval_interval", rng.integers(1, 9)]),
                         (0.2, ["--checkpoint_interval", rng.integers(1, 9)]),
                         (1.0, ["--num_proc", processes])):
        if rng.random() < chance:
            flags += more
    return flags


def random_store(rng, caches):
    """Flags that must not change a bit, and OMP_NUM_THREADS. caches: whether the configuration may have a cache."""
    flags = ["--lookahead", rng.integers(1, 12), "--sampler_threads", rng.integers(0, 4)]
    threads = str(rng.integers(1, 5))
    if not caches:
        return flags, threads
    flags += ["--cache_policy", pick(rng, CACHE_POLICIES), "--flush", pick(rng, ON_CPU)]
    flags += pick(rng, (["--cache_ratio", round(rng.random(), 2)], ["--cache_ratio", pick(rng, (0, 1))],
                        ["--cache_size", f"{rng.integers(1, 64)}KiB"]))
    if rng.random() < 0.5:
        flags += ["--flush_threads", rng.integers(1, 4)]
    return flags, threads


def outcome(arguments, folder, capfd):
    """What a run has learned, by file; or its error."""
    capfd.readouterr()
    try:
        main([*arguments, "--save_path", str(folder)])
    except SystemExit as stopped:
        assert stopped.code == 2
        return capfd.readouterr().err
    (run,) = folder.iterdir()
    learned = {path.name: path.read_bytes() for path in run.glob("*.npy")}
    for path in run.glob("*_model.npz"):
        with np.load(path) as arrays:
            learned.update({name: arrays[name].tobytes() for name in arrays.files})
    for path in run.glob("**/*_state.npy"):
        learned[path.name] = path.read_bytes()
    assert len(learned) >= 4
    return learned


@pytest.mark.fuzz(seeds=8)
def test_equal_bytes_or_the_same_error(fuzz_seed, tmp_path, monkeypatch, capfd):
    rng = np.random.default_rng(fuzz_seed)
    (tmp_path / "fuzzed_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write_graph(tmp_path, rng)
    configuration = random_configuration(rng)
    graph = ["--dataset", "g", "--data_path", tmp_path, "--format", "raw_udd_hrt", "--data_files", "train.txt",
             "valid.txt", "test.txt"]
    found = []
    for place in range(2):
        store, threads = random_store(rng, caches="--optimizer" not in configuration)
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        arguments = [str(flag) for flag in (*graph, *configuration, *store)]
        found.append((outcome(arguments, tmp_path / f"runs-{place}", capfd), arguments, threads))
    (one, *how), (other, *otherwise) = found
    if isinstance(one, str):
        one, other = (text.replace(f"runs-{place}", "runs") for place, text in enumerate((one, other)))
    assert one == other, (how, otherwise)
