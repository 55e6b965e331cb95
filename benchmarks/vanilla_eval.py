"""Runs DGL-KE's own test in this process and records its ranks and time; started by benchmarks/eval.py."""

from __future__ import annotations

import argparse
import time

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--data_path", "--dataset", "--model_name", "--model_path", "--hidden_dim", "--gamma",
                 "--batch_size_eval"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--every", type=int, required=True,
                        help="rank every n-th test triple (not with repeated triples)")
    parser.add_argument("--output", required=True, help="npz with ranks_head, ranks_tail, seconds")
    arguments = parser.parse_args()

    import torch

    from dglke_frugal import vanilla

    torch.set_num_threads(arguments.threads)
    vanilla.install()
    import dglke.eval
    from dglke.models import KEModel

    ranks, found = {}, {}
    forward_test, test, get_edges = KEModel.forward_test, dglke.eval.test, dglke.eval.EvalDataset.get_edges

    def recording(self, pos_g, neg_g, logs, gpu_id=-1):
        before = len(logs)
        forward_test(self, pos_g, neg_g, logs, gpu_id)
        side = "head" if neg_g.neg_head else "tail"  # batches come in random order
        for edge, log in zip(pos_g.parent_eid.tolist(), logs[before:]):
            ranks[side, edge] = log["MR"]

    def timed(*args, **kwargs):
        begin = time.perf_counter()
        test(*args, **kwargs)
        found["seconds"] = time.perf_counter() - begin

    KEModel.forward_test = recording
    dglke.eval.test = timed
    dglke.eval.EvalDataset.get_edges = lambda self, split: get_edges(self, split)[:: arguments.every]
    flags = ("data_path", "dataset", "model_name", "model_path", "hidden_dim", "gamma", "batch_size_eval")
    vanilla.run("eval", [part for flag in flags for part in (f"--{flag}", getattr(arguments, flag))])
    by_side = {f"ranks_{side}": [ranks[key] for key in sorted(ranks) if key[0] == side] for side in ("head", "tail")}
    np.savez(arguments.output, seconds=found["seconds"], **by_side)


if __name__ == "__main__":
    main()
