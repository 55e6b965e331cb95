"""200 steps of unmodified DGL-KE, and its batches through our step behind cache and engine: the same losses.

On a GPU that is DGL-KE with --mix_cpu_gpu: both keep entities in host memory and compute on the device.
"""

import contextlib
import itertools
from dataclasses import dataclass, field
from typing import List, Tuple

import numpy as np
import pytest
from devices import CUDA, make_device

from dglke_frugal import _native, vanilla
from dglke_frugal.cli import flags as cli_flags
from dglke_frugal.options import TrainConfig
from dglke_frugal.training.run.loop import TrainingLoop
from dglke_frugal.training.step.make_step import make_step
from dglke_frugal.training.tables.tables import Tables
from dglke_frugal.training.run.run import step_config

STEPS = 200
FLAGS = ["--dataset", "FB15k", "--hidden_dim", "400", "--batch_size", "256", "--neg_sample_size", "64", "-adv",
         "--max_step", str(STEPS), "--no_save_emb"]
MODELS = {"TransE_l2": ["--gamma", "19.9", "--lr", "0.25", "-rc", "1e-9"],
          "ComplEx": ["--gamma", "143", "--lr", "0.1", "-rc", "2e-6"]}
SETTINGS = [["--cache_ratio", "0"], ["--cache_policy", "lfu", "--flush", "p2f"], ["--lookahead", "1"],
            ["--flush", "sync"], ["--flush", "none"]]


@dataclass
class Recording:
    """What DGL-KE trained on: its tables before the first step, ids of each batch, and what it printed as loss."""

    entities: np.ndarray = None
    relations: np.ndarray = None
    batches: List[Tuple] = field(default_factory=list)
    losses: List[float] = field(default_factory=list)

    def hook(self, forward):
        """KEModel.forward that also records."""

        def recorded(model, positive, negative, gpu_id=-1):
            if self.entities is None:
                self.entities, self.relations = (embedding.emb.cpu().numpy().copy() for embedding in
                                                 (model.entity_emb, model.relation_emb))
            head, tail = positive.all_edges(order="eid")
            ids, corrupted = positive.ndata["id"], negative.head_nid if negative.neg_head else negative.tail_nid
            self.batches.append((*(part.numpy() for part in (ids[head], positive.edata["id"], ids[tail],
                                                             negative.ndata["id"][corrupted])), negative.neg_head))
            loss, log = forward(model, positive, negative, gpu_id)
            self.losses.append(loss.item())
            return loss, log

        return recorded

    @contextlib.contextmanager
    def batches_from(self, first_step):
        """Stands for a sampler of TrainingLoop."""
        yield (_native.make_batch(*ids, bool(side), 64, len(self.entities), len(self.relations), step=step)
               for step, (*ids, side) in itertools.islice(enumerate(self.batches), first_step, None))


class Recorded:
    made_ahead = False

    def __init__(self, recording):
        self.batches = recording.batches_from


def record(arguments, monkeypatch):
    vanilla.install()
    from dglke.models.general_models import KEModel

    recording = Recording()
    with monkeypatch.context() as patch:
        patch.setattr(KEModel, "forward", recording.hook(KEModel.forward))
        vanilla.run("train", arguments, seed=7)
    return recording


def replay(recording, arguments, device):
    """The losses of our own step."""
    config = TrainConfig.from_flags(cli_flags.given(arguments))
    tables = Tables.create(config, len(recording.entities), len(recording.relations), 0, np.arange(1000), device)
    tables.entity.embeddings[:], tables.relation.embeddings[:] = recording.entities, recording.relations
    step = make_step(step_config(config), device=device, matmul="fp32")
    loop = TrainingLoop(tables, Recorded(recording), step, 0, STEPS, config.store.lookahead)
    losses = [step.take_losses().total for _ in loop]
    tables.close()
    return losses


@pytest.mark.parametrize("kind", ["queued", CUDA])
@pytest.mark.parametrize("model", MODELS)
def test_losses_of_200_steps(graphs, tmp_path, monkeypatch, model, kind):
    arguments = [*FLAGS, "--model_name", model, *MODELS[model], "--data_path", str(graphs), "--save_path",
                 str(tmp_path)]
    gpu = ["--gpu", "0", "--mix_cpu_gpu"] if kind == "cuda" else []
    recording = record([*arguments, *gpu], monkeypatch)
    assert len(recording.losses) == STEPS
    for setting in SETTINGS if kind == "cuda" else SETTINGS[:1]:
        flush = [] if "--flush" in setting else ["--flush", "p2f"]
        losses = replay(recording, [*arguments, *gpu[:2], *flush, *setting], make_device(kind))
        np.testing.assert_allclose(losses, recording.losses, rtol=1e-5, err_msg=" ".join(setting))
