"""`dglke_frugal COMMAND ...`, also as `python -m dglke_frugal COMMAND ...`."""
from __future__ import annotations

import importlib

from ..errors import InputError
from ..nearest import or_nearest
from . import cluster
from .cluster import INSTEAD
from .errors import reports_input_errors

COMMANDS = {"train": ("train", "train embeddings (also: dglke_train)"),
            "eval": ("evaluate", "rank test triples with a trained run (also: dglke_eval)"),
            "predict": ("predict", "find the best triples (also: dglke_predict)"),
            "emb_sim": ("emb_sim", "find similar embeddings (also: dglke_emb_sim)"),
            "split": ("split", "divide a file of triples into train, valid and test"),
            "export": ("export", "write a run's tables as safetensors, Parquet, npz, TSV or word2vec text"),
            "compare": ("compare", "put the results of runs side by side in a table"),
            "search": ("search", "find flags with the best validation MRR by trials over a space"),
            "presets": ("presets", "list the recipes that come with the package (dglke_train --preset NAME)"),
            "plan": ("plan", "say how much memory and disk a training run would need"),
            "report": ("report", "draw one or more runs on an HTML page"),
            "doctor": ("doctor", "say which versions, devices and commands are in use")}


def _help() -> str:
    lines = ["usage: dglke_frugal COMMAND ...", "", "commands:"]
    lines += [f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join([*lines, "", "dglke_frugal COMMAND --help tells what a command takes."])


@reports_input_errors
def main(argv):
    """Run one command. argv: the arguments without the program's name."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return
    if argv[0] in INSTEAD:
        getattr(cluster, argv[0])(argv[1:])
        return
    if argv[0] not in COMMANDS:
        raise InputError(f"there is no command '{argv[0]}'{or_nearest(argv[0], COMMANDS)}")
    module = importlib.import_module(f".{COMMANDS[argv[0]][0]}", __package__)
    module.main(argv[1:])
