"""The mathematics of a step in float64 torch, written as the formulas are and differentiated by autograd."""
import math

import torch

GAMMA = 12.0


def transe(p):
    return lambda h, r, t, m, head: GAMMA - (h + r - t).norm(p=p, dim=-1)


def distmult(h, r, t, m, head):
    return (h * r * t).sum(-1)


def complex_(h, r, t, m, head):
    h, r, t = (torch.complex(*x.chunk(2, dim=-1)) for x in (h, r, t))
    return (h * r * t.conj()).real.sum(-1)


def rotate(h, r, t, m, head, embedding_range=0.5):
    h, t = (torch.complex(*x.chunk(2, dim=-1)) for x in (h, t))
    phase = r / (embedding_range / math.pi)
    return GAMMA - (h * torch.polar(torch.ones_like(phase), phase) - t).abs().sum(-1)


def simple(h, r, t, m, head):
    (h1, h2), (r1, r2), (t1, t2) = (x.chunk(2, dim=-1) for x in (h, r, t))
    return (0.5 * (h1 * r1 * t2 + t1 * r2 * h2).sum(-1)).clamp(-20, 20)


def rescal(h, r, t, m, head):
    matrix = r.unflatten(-1, (h.shape[-1], h.shape[-1]))
    return torch.einsum("...i,...ij,...j->...", h, matrix, t)


def transr(h, r, t, m, head):
    matrix = m.unflatten(-1, (h.shape[-1], r.shape[-1]))
    h, t = (torch.einsum("...i,...ij->...j", x, matrix) for x in (h, t))
    return GAMMA - (h + r - t).norm(p=1, dim=-1)


def rescal_of_dglke(h, r, t, m, head):
    """head: None for a positive, else which side is corrupted. DGL-KE scores a corrupted tail as t^T M h."""
    return rescal(t, r, h, m, head) if head is False else rescal(h, r, t, m, head)


def transr_of_dglke(h, r, t, m, head):
    """DGL-KE subtracts the relation from a fixed head where it scores corrupted tails."""
    return transr(h, -r if head is False else r, t, m, head)


SCORES = {"TransE_l1": transe(1), "TransE_l2": transe(2), "DistMult": distmult, "ComplEx": complex_, "RotatE": rotate,
          "SimplE": simple, "RESCAL": rescal, "TransR": transr}
SCORES_OF_DGLKE = {**SCORES, "RESCAL": rescal_of_dglke, "TransR": transr_of_dglke}


def elementwise_loss(loss, x):
    if loss.genre == "Hinge":
        return (loss.margin - x).clamp(min=0)
    return torch.nn.functional.softplus(-x)


def step_loss(loss, positive, negative, weight):
    """positive (B,), negative (B, N), weight (B,)."""
    if loss.pairwise:
        return (elementwise_loss(loss, positive[:, None] - negative) * weight[:, None]).mean()
    if loss.genre == "Softmax":
        return (weight * -torch.cat([positive[:, None], negative], 1).log_softmax(-1)[:, 0]).mean()
    share = torch.full_like(negative, 1 / negative.shape[1])
    if loss.adversarial:
        share = (loss.temperature * negative).softmax(-1).detach()
    negatives = (share * elementwise_loss(loss, -negative)).sum(-1)
    return 0.5 * ((weight * elementwise_loss(loss, positive)).mean() + (weight * negatives).mean())


def differentiate(model, loss, batch, entities, relations, projections, degree_negatives, score_rule="textbook"):
    """The loss without regularization and its gradients by part of an edge, as _native.TrainStep.differentiate names
    them."""
    score = (SCORES_OF_DGLKE if score_rule == "dglke" else SCORES)[model]

    def tracked(table, ids):
        return torch.tensor(table.embeddings[ids], dtype=torch.float64, requires_grad=True)

    edges = {"head": tracked(entities, batch.head), "tail": tracked(entities, batch.tail),
              "negative": tracked(entities, batch.negative), "relation": tracked(relations, batch.relation)}
    own_matrix = chunk_matrix = None
    if projections is not None:
        edges["projection"] = own_matrix = tracked(projections, batch.relation)
        edges["projection_of_negatives"] = tracked(projections, batch.relation)
        chunk_matrix = edges["projection_of_negatives"].unflatten(0, (batch.chunks, -1))[:, :, None]
    positive = score(edges["head"], edges["relation"], edges["tail"], own_matrix, None)

    by_chunk = {name: x.unflatten(0, (batch.chunks, -1)) for name, x in edges.items()}
    corrupted, fixed = ("head", "tail") if batch.corrupt_head else ("tail", "head")
    candidates = by_chunk["negative"]
    if degree_negatives:
        candidates = torch.cat([by_chunk[corrupted], candidates], 1)
    sides = {corrupted: candidates[:, None], fixed: by_chunk[fixed][:, :, None]}
    negative = score(sides["head"], by_chunk["relation"][:, :, None], sides["tail"], chunk_matrix, batch.corrupt_head)
    if degree_negatives:
        own = torch.eye(batch.chunk_size, candidates.shape[1], dtype=torch.bool)
        negative = negative.masked_fill(own, -math.inf if loss.genre == "Softmax" else 0.0)
    weight = torch.tensor(batch.weight, dtype=torch.float64) if len(batch.weight) else torch.ones(len(batch)).double()
    total = step_loss(loss, positive, negative.flatten(0, 1), weight)
    total.backward()
    return total.item(), {name: x.grad.numpy() for name, x in edges.items()}
