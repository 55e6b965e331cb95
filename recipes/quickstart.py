"""A minute with dglke_frugal: make a small graph of families, train on it, evaluate, and ask it questions.

python -m recipes.quickstart
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import dglke_frugal
from datasets import families
from dglke_frugal.options import (BatchConfig, EvaluationConfig, GraphConfig, LossConfig, ModelConfig, RunConfig,
                                   TrainConfig)
from dglke_frugal.training.train import train

SEED = 1
QUESTIONS = {"parent_of": "Who is a child of {}?",
             "child_of": "Who is a parent of {}?",
             "grandparent_of": "Who is a grandchild of {}?",
             "spouse_of": "Who is married to {}?",
             "sibling_of": "Who is a sibling of {}?",
             "cousin_of": "Who is a cousin of {}?"}


def configuration(data: Path, save_path: Path, steps: int) -> TrainConfig:
    """What `dglke_train` would be told by flags."""
    return TrainConfig(
        graph=GraphConfig(str(data), "families", "raw_udd_hrt", ("train.txt", "valid.txt", "test.txt")),
        model=ModelConfig("ComplEx", hidden_dim=128, gamma=20.0),
        loss=LossConfig(lr=0.1, neg_adversarial_sampling=True, regularization_coef=0.0),
        batch=BatchConfig(batch_size=1024, neg_sample_size=128),
        evaluation=EvaluationConfig(test=True),
        run=RunConfig(save_path=str(save_path), max_step=steps, log_interval=max(1, steps // 4), seed=SEED))


def read_facts(path: Path) -> list:
    """(head, relation, tail) by name, in the order of the file."""
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def ask(run, data: Path) -> None:
    """Put one question of each kind to the model; the asked-about facts were held out of training."""
    trained = set(read_facts(data / "train.txt"))
    held_out = set(read_facts(data / "valid.txt")) | set(read_facts(data / "test.txt"))
    facts = read_facts(data / "test.txt")
    random.Random(SEED).shuffle(facts)
    asked = {relation: (head, relation) for head, relation, _ in facts if relation in QUESTIONS}
    print("\n3. Links that were not in the training data (most likely first):")
    for head, relation in (asked[relation] for relation in QUESTIONS if relation in asked):
        print(f"\n{QUESTIONS[relation].format(head)}")
        known = sum(fact[:2] == (head, relation) for fact in trained)
        answers = [found for found in run.tails(head, relation, k=4 + known)
                   if found.name != head and (head, relation, found.name) not in trained]
        for found in answers[:3]:
            truth = "true" if (head, relation, found.name) in held_out else "not known to be true"
            print(f"  {found.name:<30}{truth}")


def log_next(folder: Path) -> None:
    """What to try now, as commands that work from where the user is."""
    print(f"""
Next, after `. .venv/bin/activate`:
  dglke_eval --model_path {folder}     # the test again
  dglke_frugal report {folder}         # curves and tables as a page
  docs/tutorial.md goes on with your own triples""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of data/ and ckpts/ (default: this one)")
    parser.add_argument("--steps", type=int, default=4000, help="training steps (%(default)s)")
    arguments = parser.parse_args()
    data = arguments.out / "data" / "families"
    print(f"1. A graph of families, made up by datasets/families.py, goes to {data}:", flush=True)
    families.main(["--out", str(data)])
    print(f"\n2. Training ComplEx for {arguments.steps} steps, then ranking the facts that were held out:", flush=True)
    folder = train(configuration(data, arguments.out / "ckpts", arguments.steps))
    ask(dglke_frugal.load(folder), data)
    log_next(folder)


if __name__ == "__main__":
    main()
