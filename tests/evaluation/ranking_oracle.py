"""Scores and ranks by the textbook formulas, one pair at a time in float64: what the fast path must agree with."""

import numpy as np


def score(model, head, relation, tail, corrupted=None):
    """Score of one triple given its rows' ids; `corrupted` names the replaced place, for the rule "dglke"."""
    other_formula = model.score_rule == "dglke" and corrupted == "tail"
    h, t = model.entity[head].astype(float), model.entity[tail].astype(float)
    r = model.relation[relation].astype(float)
    half = len(h) // 2
    if model.name in ("TransE", "TransE_l2"):
        return model.gamma - np.sqrt(((h + r - t) ** 2).sum())
    if model.name == "TransE_l1":
        return model.gamma - np.abs(h + r - t).sum()
    if model.name == "DistMult":
        return (h * r * t).sum()
    if model.name == "ComplEx":
        h, r, t = (x[:half] + 1j * x[half:] for x in (h, r, t))
        return (h * r * t.conj()).sum().real
    if model.name == "RotatE":
        h, t = (x[:half] + 1j * x[half:] for x in (h, t))
        turn = np.exp(1j * r * np.pi * model.hidden_dim / (model.gamma + 2))
        return model.gamma - np.abs(h * turn - t).sum()
    if model.name == "SimplE":
        both = (h[:half] * r[:half] * t[half:]).sum() + (t[:half] * r[half:] * h[half:]).sum()
        return np.clip(both / 2, -20, 20)
    if model.name == "RESCAL":
        matrix = r.reshape(len(h), len(h))
        return t @ matrix @ h if other_formula else h @ matrix @ t
    matrix = model.projection[relation].astype(float).reshape(len(h), len(r))
    return model.gamma - np.abs(h @ matrix + (-r if other_formula else r) - t @ matrix).sum()


def better_and_equal(model, triples, side, known, candidates=None, tolerance=0.0):
    """Per triple, how many candidates score better and how many equally; `known` is a set of triples or None."""
    result = []
    for head, relation, tail in zip(*triples):
        true = score(model, head, relation, tail)
        better = equal = 0
        for candidate in range(len(model.entity)) if candidates is None else candidates:
            triple = (candidate, relation, tail) if side == "head" else (head, relation, candidate)
            if triple == (head, relation, tail) or (known is not None and triple in known):
                continue
            difference = score(model, *triple, corrupted=side) - true
            better += difference > tolerance
            equal += abs(difference) <= tolerance
        result.append((better, equal))
    return np.array(result).T
