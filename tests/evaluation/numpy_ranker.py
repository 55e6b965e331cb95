"""Filtered ranks of a run's test triples, from the files it left and the formulas of the papers, in float64.

Numpy and the standard library alone: nothing of the product is imported, and nothing is shared with it. A score counts
as the float32 number that it is printed as, so what is equal to seven digits ties.
"""

import json
from pathlib import Path

import numpy as np


def complex_halves(x):
    real, imaginary = np.split(x, 2, axis=-1)
    return real + 1j * imaginary


def trans_e(norm):
    """Bordes et al. 2013."""
    return lambda run, h, r, t, m: run.gamma - np.linalg.norm(h + r - t, ord=norm, axis=-1)


def trans_r(run, h, r, t, m):
    """Lin et al. 2015: both ends are projected by the relation's matrix; the sum of absolute values."""
    return run.gamma - np.abs(h @ m + r - t @ m).sum(-1)


def rescal(run, h, r, t, m):
    """Nickel et al. 2011: h^T R t."""
    matrix = r.reshape(h.shape[-1], t.shape[-1])
    return ((h @ matrix) * t).sum(-1)


def dist_mult(run, h, r, t, m):
    """Yang et al. 2015."""
    return (h * r * t).sum(-1)


def compl_ex(run, h, r, t, m):
    """Trouillon et al. 2016: Re <h, r, conj(t)>."""
    return (complex_halves(h) * complex_halves(r) * complex_halves(t).conj()).sum(-1).real


def rotat_e(run, h, r, t, m):
    """Sun et al. 2019; the phases are kept in units in which the range of start values, (gamma + 2) / dim, is pi."""
    turn = np.exp(1j * np.pi * r * run.hidden_dim / (run.gamma + 2))
    return run.gamma - np.abs(complex_halves(h) * turn - complex_halves(t)).sum(-1)


def simpl_e(run, h, r, t, m):
    """Kazemi and Poole 2018: half of <h_1, r, t_2> + <t_1, r', h_2>, clamped as in their code."""
    (h1, h2), (r1, r2), (t1, t2) = (np.split(x, 2, axis=-1) for x in (h, r, t))
    return np.clip(((h1 * r1 * t2).sum(-1) + (t1 * r2 * h2).sum(-1)) / 2, -20, 20)


SCORES = {"TransE": trans_e(2), "TransE_l2": trans_e(2), "TransE_l1": trans_e(1), "TransR": trans_r, "RESCAL": rescal,
          "DistMult": dist_mult, "ComplEx": compl_ex, "RotatE": rotat_e, "SimplE": simpl_e}  # fmt: skip


class Run:
    """The files of a run, and those of its graph: triples of ids, one a line."""

    def __init__(self, folder, graph):
        config = json.loads((Path(folder) / "config.json").read_text())
        self.name, self.gamma, self.hidden_dim = config["model_name"], config["gamma"], config["hidden_dim"]

        def table(suffix):
            return np.load(Path(folder) / f"{config['dataset']}_{self.name}{suffix}.npy").astype(np.float64)

        self.entity, self.relation = table("_entity"), table("_relation")
        self.relations = len(self.relation) // 2 if config.get("reciprocal") else None  # then r + that is the inverse
        self.projection = table("projection") if self.name == "TransR" else None
        splits = [np.loadtxt(Path(graph) / f"{split}.txt", dtype=int) for split in ("train", "valid", "test")]
        self.test, self.known = splits[2], {tuple(triple) for split in splits for triple in split.tolist()}

    def scores(self, head, relation, tail):
        """float32 scores of ids, two of which are numbers and one is a number or an array."""
        h, r, t = self.entity[head], self.relation[relation], self.entity[tail]
        m = None if self.projection is None else self.projection[relation].reshape(self.entity.shape[1], -1)
        return SCORES[self.name](self, h, r, t, m).astype(np.float32)

    def head_scores(self, relation, tail):
        """Of all entities as heads, or as tails of the inverse (Lacroix et al. 2018)."""
        everyone = np.arange(len(self.entity))
        if self.relations is None:
            return self.scores(everyone, relation, tail)
        return self.scores(tail, relation + self.relations, everyone)

    def ranks(self, side):
        """(test triples,): 1 + the entities in that place that score as well or better, known ones left out."""
        everyone, ranks = np.arange(len(self.entity)), []
        for head, relation, tail in self.test.tolist():
            if side == "head":
                scores, true = self.head_scores(relation, tail), head
                known = [e for e in everyone.tolist() if (e, relation, tail) in self.known]
            else:
                scores, true = self.scores(head, relation, everyone), tail
                known = [e for e in everyone.tolist() if (head, relation, e) in self.known]
            competes = np.ones(len(everyone), bool)
            competes[known] = False
            ranks.append(1 + int((scores[competes] >= scores[true]).sum()))
        return np.array(ranks)
