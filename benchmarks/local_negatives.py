"""Whether machines that draw negatives from their own entities learn as much as one process with the joined batch.

    python -m benchmarks.local_negatives --data_path P --json FILE [--seeds 1 2 3] [--at_once 2]

FB15k by TransE_l2 and wn18rr by ComplEx, dim 50, joined batches of 2048 with 256 negatives for each chunk of 256. N
workers have the bits of N machines (tests/training/machines); each has 2048 / N of the batch, and N times the
regularization, because losses are means over a worker's batch. All test triples are ranked, filtered.
`within_noise`, by data set and workers: whether the mean MRR is that of one process (benchmarks/quality.py).
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List

from . import result_file
from .quality import command, spread, within_noise

JOINED, NEGATIVES = 2048, 256
RECIPES: Dict[str, List] = {
    "FB15k": ["--model_name", "TransE_l2", "--gamma", 12, "--lr", 0.25, "-adv", "--max_step", 3000],
    "wn18rr": ["--model_name", "ComplEx", "--gamma", 10, "--lr", 0.1, "-adv", "--max_step", 2000]}
PENALTIES = {"FB15k": 1e-9, "wn18rr": 1e-6}
KINDS = {name: ["--partition", partition, "--negatives", negatives] for name, partition, negatives in (
    ("global", "hash", "global"), ("local", "hash", "local"), ("metis global", "metis", "global"),
    ("metis local", "metis", "local"))}
WORKERS = {1: ["-"], 2: ["global", "local"], 4: list(KINDS)}


def mrr(data: str, workers: int, kind: str, seed: int, data_path: Path) -> float:
    """Of the test set, after a training."""
    several = [] if workers == 1 else ["--num_proc", workers, "--num_thread", 1, *KINDS[kind]]
    with tempfile.TemporaryDirectory() as folder:
        command("train", "--dataset", data, "--data_path", data_path, *RECIPES[data], "--hidden_dim", 50,
                "--batch_size", JOINED // workers, "--neg_sample_size", NEGATIVES, "-rc", workers * PENALTIES[data],
                "--seed", seed, "--log_interval", 1000, "--test", "--no_save_emb", "--save_path", folder, *several,
                threads=1)
        (result,) = Path(folder).glob("*/result.json")
        return json.loads(result.read_text())["test"]["MRR"]


def main() -> None:
    parser = result_file.parser(__doc__)
    parser.add_argument("--data_path", type=Path, required=True, help="folder with FB15k and wn18rr in it")
    parser.add_argument("--datasets", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--at_once", type=int, default=1, help="runs at the same time (%(default)s)")
    options = parser.parse_args()
    asked = [(data, workers, kind, seed) for data in options.datasets for seed in options.seeds
             for workers, kinds in WORKERS.items() for kind in kinds]

    def run(one):
        value = mrr(*one, data_path=options.data_path)
        print(*one, f"MRR {value:.4f}", flush=True)
        return value

    with ThreadPoolExecutor(options.at_once) as pool:
        values = dict(zip(asked, pool.map(run, asked)))
    report: Dict = {"steps": {data: RECIPES[data][-1] for data in options.datasets}, "seeds": options.seeds, "MRR": {},
                    "within_noise": {}}
    for data in options.datasets:
        of = {f"{workers} {kind}".removesuffix(" -"): [values[data, workers, kind, seed] for seed in options.seeds]
              for workers, kinds in WORKERS.items() for kind in kinds}
        report["MRR"][data] = of
        report["within_noise"][data] = {name: within_noise(spread(found), spread(of["1"]), len(found))
                                        for name, found in of.items() if name != "1"}
    print(json.dumps(report, indent=2))
    result_file.write(options.json, report)


if __name__ == "__main__":
    main()
