"""One training step of TransE_l2 as plain PyTorch makes it on a GPU: autograd, torch.compile, one CUDA graph.

    python -m benchmarks.compiled_torch [--gpu N] [--steps N]

What an engineer gets without kernels: tables on the device, a batch of benchmarks/train_step.py's size drawn there,
scores of all pairs by a product, the loss of -adv with -rc, row-wise Adagrad by index_add_ (whose order of sums differs
from run to run). Prints JSON: step_ms, the median of several runs of replays.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import logsigmoid

from .train_step import BATCH, ENTITIES, HIDDEN, NEGATIVES, RELATIONS

GAMMA, RATE, COEFFICIENT, REPEATS = 19.9, 0.25, 1e-9, 5
CHUNKS = BATCH // NEGATIVES


def loss_of(head, relation, tail, negative):
    """The negatives, (CHUNKS * NEGATIVES, HIDDEN), replace tails."""
    translated = head + relation
    positive = GAMMA - (translated - tail).norm(dim=-1)
    query, candidate = translated.view(CHUNKS, NEGATIVES, HIDDEN), negative.view(CHUNKS, NEGATIVES, HIDDEN)
    squares = query.square().sum(-1)[:, :, None] + candidate.square().sum(-1)[:, None, :]
    distances = (squares - 2 * query @ candidate.transpose(1, 2)).clamp_min(1e-30).sqrt()
    scores = (GAMMA - distances).view(BATCH, NEGATIVES)
    losses = (scores.softmax(-1).detach() * -logsigmoid(-scores)).sum(-1)
    penalty = sum(rows.norm(p=3) ** 3 for rows in (head, relation, tail, negative))
    return (losses.mean() - logsigmoid(positive).mean()) / 2 + COEFFICIENT * penalty


def make_step(device):
    """A function that trains on one random batch."""
    tables = [torch.empty(rows, HIDDEN, device=device).uniform_(-0.1, 0.1) for rows in (ENTITIES, RELATIONS)]
    states = [torch.zeros(len(table), device=device) for table in tables]

    def update(table, state, ids, gradient):
        state.index_add_(0, ids, gradient.square().mean(1))
        table.index_add_(0, ids, -RATE * gradient / (state[ids].sqrt() + 1e-10)[:, None])

    def step():
        head, tail, negative = (torch.randint(ENTITIES, (BATCH,), device=device) for _ in range(3))
        relation = torch.randint(RELATIONS, (BATCH,), device=device)
        rows = [tables[t][ids].detach().requires_grad_()
                for t, ids in ((0, head), (1, relation), (0, tail), (0, negative))]
        of_head, of_relation, of_tail, of_negative = torch.autograd.grad(loss_of(*rows), rows)
        update(tables[0], states[0], torch.cat([head, tail]), torch.cat([of_head, of_tail]))
        update(tables[0], states[0], negative, of_negative)
        update(tables[1], states[1], relation, of_relation)

    return step


def milliseconds(step, steps):
    """Of one replay of `step` as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run():
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            graph.replay()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - began) / steps

    run()
    return statistics.median(run() for _ in range(REPEATS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500, help="of a run (%(default)s)")
    options = parser.parse_args()
    torch.cuda.set_device(options.gpu)
    torch.backends.cuda.matmul.allow_tf32 = False
    step = torch.compile(make_step(torch.device("cuda", options.gpu)))
    print(json.dumps({"step_ms": milliseconds(step, options.steps)}))


if __name__ == "__main__":
    main()
