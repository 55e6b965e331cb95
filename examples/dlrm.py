"""DLRM, the recommendation model of arXiv 1906.00091, on dglke_frugal.Embedding.

    python examples/dlrm.py --data criteo train.txt --rows 34000000      # Criteo's or Avazu's file
    python examples/dlrm.py --rows 300000 --samples 400000               # or data of Criteo's shape, made up
    torchrun --nproc_per_node 2 examples/dlrm.py --device cuda           # a GPU each, or without --device on the CPU

Every (feature, value) is one row of one table: by its number modulo --rows, or with --keys by itself, in a table of
--rows rows that keeps what was used last. Each sample is trained on once; the last tenth is for the AUC and log loss.
Several processes train one table and, by DistributedDataParallel, one model: each takes every other batch.
"""
import argparse
import csv
import itertools
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of
from torch.nn.parallel import DistributedDataParallel

from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import DenseStep, Lookahead, Uniform

# Distinct values of the 26 categorical features of Criteo's Kaggle data.
CRITEO = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
          5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)
EXPONENT = 1.1  # of the Zipf law by which made-up values come


def mixed(keys):
    """64-bit keys, scattered (splitmix64); int64 in and out, for any shape."""
    x = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).astype(np.int64)


def read(kind, path):
    """Yields (label, dense values, categorical values as text) for each line of a file."""
    with open(path, newline="", encoding="utf-8") as file:
        if kind == "criteo":  # label, 13 counts, 26 hexadecimal values, with tabs between; some are empty
            for number, line in enumerate(csv.reader(file, delimiter="\t"), 1):
                if len(line) != 40:
                    raise SystemExit(f"{path}, line {number}: {len(line)} columns where Criteo has 40")
                yield int(line[0]), [np.log1p(max(float(value or 0), 0)) for value in line[1:14]], line[14:]
        else:  # Avazu: id, click, hour as YYMMDDHH and 21 more columns, below their names
            for row in csv.DictReader(file):
                hour = int(row["hour"][-2:])
                dense = [np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12)]
                yield int(row["click"]), dense, [row[name] for name in row if name not in ("id", "click")]


def batches_of(samples, size):
    """(keys (B, features) int64, dense (B, d), label (B,)) of batches of read samples; values are hexadecimal."""
    samples = iter(samples)
    while batch := list(itertools.islice(samples, size)):
        labels, dense, values = zip(*batch)
        keys = np.array([[int(value or "0", 16) for value in row] for row in values], np.uint64)
        keys ^= np.arange(keys.shape[1], dtype=np.uint64) << np.uint64(48)
        yield mixed(keys), torch.tensor(np.array(dense, np.float32)), torch.tensor(labels, dtype=torch.float32)


def made_up(samples, size, seed=0, scale=1.0):
    """Batches of Criteo's shape: ranks by Zipf's law, labels drawn from a logistic model with a weight per value."""
    random = np.random.default_rng(seed)
    counts = np.maximum(3, np.array(CRITEO) * scale).astype(np.int64)
    first = np.cumsum(counts) - counts
    for begin in range(0, samples, size):
        count = min(size, samples - begin)
        power = 1 - EXPONENT
        ranks = ((counts.astype(float) ** power - 1) * random.random((count, 26)) + 1) ** (1 / power) - 1
        values = first + np.minimum(ranks.astype(np.int64), counts - 1)
        dense = random.standard_normal((count, 13), np.float32)
        weights = mixed(values + 1) / 2.0**63  # of each value, the same at every call
        chance = 1 / (1 + np.exp(-(weights.sum(1) + 0.5 * dense[:, 0] - 1)))
        yield values, torch.from_numpy(dense), torch.from_numpy((random.random(count) < chance).astype(np.float32))


def layers(*sizes):
    """A perceptron with ReLU between its layers."""
    return nn.Sequential(*[each for a, b in zip(sizes, sizes[1:]) for each in (nn.Linear(a, b), nn.ReLU())][:-1])


class DLRM(nn.Module):
    """Bottom perceptron, products of all pairs of vectors, top perceptron."""
    def __init__(self, dense, categorical, dim=32):
        super().__init__()
        self.bottom = layers(dense, 512, 256, 64, dim)
        first, second = torch.tril_indices(categorical + 1, categorical + 1, -1)
        self.register_buffer("pairs", first * (categorical + 1) + second, persistent=False)
        self.top = layers(dim + len(first), 512, 256, 1)

    def forward(self, rows, dense):
        """Logits (B,) of rows (B, categorical, dim) of the embedding and dense (B, d)."""
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom[:, None], rows], 1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


def auc(labels, scores):
    """Area under the ROC curve; scores that are equal count half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    positives = int(labels.sum())
    return (ranks[labels > 0].sum() - positives * (positives + 1) / 2) / max(1, positives * (len(labels) - positives))


def train(model, embedding, batches, lr=0.1, lookahead=10, processes=1):
    """Train on batches (ids, dense, label) once, by the mean loss of the batches that the processes have at a time."""
    layers = DistributedDataParallel(model) if processes > 1 else model
    step = DenseStep(lambda rows, dense, label: loss_of(layers(rows, dense), label),
                     torch.optim.SGD(model.parameters(), lr), graphs=processes == 1)
    for ids, dense, label in Lookahead(batches, lambda batch: {embedding: batch[0]}, lookahead):
        rows = embedding(ids)
        embedding.learn(rows, step(rows, dense, label) / processes)  # which the table adds up over processes


@torch.no_grad()
def evaluate(model, embedding, batches):
    """{"auc", "log_loss"} over batches."""
    device = model.pairs.device
    pairs = [(label, model(embedding(ids), dense.to(device)).cpu()) for ids, dense, label in batches]
    labels, scores = (torch.cat(each) for each in zip(*pairs))
    return {"auc": float(auc(labels.numpy(), scores.numpy())), "log_loss": float(loss_of(scores, labels))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs=2, metavar=("criteo|avazu", "FILE"), help="made-up data if not given")
    parser.add_argument("--samples", type=int, default=200_000, help="how many to use")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", action="store_true", help="rows by key instead of by remainder")
    parser.add_argument("--batch_size", type=int, default=2048)
    parser.add_argument("--device", default="cpu", help="or cuda")
    args = parser.parse_args()
    process, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))  # from torchrun
    if processes > 1 and args.keys:
        parser.error("rows by key are for one process")
    if args.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if processes > 1:
        dist.init_process_group("gloo" if args.device == "cpu" else "nccl")
    torch.manual_seed(0)
    made = made_up(args.samples, args.batch_size, scale=args.rows / sum(CRITEO))
    batches = ((mixed(values), dense, label) for values, dense, label in made)
    if args.data:
        batches = batches_of(itertools.islice(read(*args.data), args.samples), args.batch_size)
    pinned = torch.Tensor.detach if args.device == "cpu" else torch.Tensor.pin_memory
    batches = [(torch.from_numpy(keys if args.keys else keys % args.rows), pinned(dense), pinned(label))
               for keys, dense, label in batches]
    last = max(1, len(batches) // 10)
    settings = {"embedding_dim": 32, "optimizer": optim.RowwiseAdagrad(0.02), "device": args.device,
                "init": Uniform(-0.05, 0.05)}
    if args.keys:
        embedding = Embedding(keys="int64", capacity=args.rows, policy="lru", **settings)
    elif processes > 1:
        embedding = Embedding.distributed(args.rows, max_rows=batches[0][0].numel(), **settings)
    else:
        embedding = Embedding(args.rows, **settings)
    model = DLRM(batches[0][1].shape[1], batches[0][0].shape[1]).to(args.device)
    rounds = (len(batches) - last) // processes  # in which each process has a batch
    train(model, embedding, batches[process : rounds * processes : processes], processes=processes)
    measured = evaluate(model, embedding, batches[-last:])  # by each process: reads of a shared table wait for all
    if process == 0:
        print(measured)
    embedding.close()
    if processes > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
