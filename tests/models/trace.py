"""Replays a recorded run of DGL-KE, step by step."""

import json

import numpy as np

from dglke_frugal import _native
from dglke_frugal.training.step import LossConfig, StepConfig, make_step


class Trace:
    """One recorded run: its batches, its losses, its tables before and after."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.recorded = {name: file[name] for name in file.files}
        self.meta = json.loads(bytes(self.recorded["meta"]).decode())

    def config(self):
        meta = self.meta
        loss = LossConfig(
            genre=meta["loss_genre"],
            margin=meta["margin"],
            pairwise=meta["pairwise"],
            adversarial=meta["adv"],
            temperature=meta["adv_temperature"],
            regularization_coefficient=meta["regularization_coef"],
            regularization_norm=meta["regularization_norm"],
        )
        return StepConfig(
            model=meta["model"],
            entity_dim=meta["entity_dim"],
            relation_dim=meta["relation_dim"],
            gamma=meta["gamma"],
            embedding_range=meta["emb_init"],
            learning_rate=meta["lr"],
            loss=loss,
            degree_negatives=meta["neg_deg_sample"],
        )

    def tables(self):
        """Entities, relations and, for TransR, projections as DGL-KE's run found them."""
        meta = self.meta
        random = np.random.default_rng(meta["seed"])
        shapes = [
            (meta["n_entities"], meta["entity_dim"], meta["emb_init"]),
            (meta["n_relations"], meta["relation_dim"], meta["emb_init"]),
        ]
        if meta["model"] == "TransR":
            shapes.append((meta["n_relations"], meta["entity_dim"] * meta["relation_dim"], 1.0))
        tables = []
        for rows, dim, bound in shapes:
            table = _native.HostTable(rows, dim)
            table.embeddings[:] = random.uniform(-bound, bound, (rows, dim)).astype(np.float32)
            tables.append(table)
        return tables

    def batch(self, step):
        ids = {name: self.recorded[name][step].astype(np.int64) for name in ("head", "rel", "tail", "neg")}
        return _native.make_batch(
            ids["head"],
            ids["rel"],
            ids["tail"],
            ids["neg"],
            bool(self.recorded["neg_head"][step]),
            self.meta["chunk_size"],
            self.meta["n_entities"],
            self.meta["n_relations"],
            step=step,
        )

    def replay(self, threads=None, instruction_set=None):
        """Trains over all recorded batches. Returns the tables and the losses, one StepLosses per step."""
        tables = self.tables()
        step = make_step(self.config(), threads, instruction_set)
        losses = [step.run_in_place(self.batch(i), *tables) for i in range(self.meta["steps"])]
        return tables, losses
