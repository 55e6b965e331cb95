"""What all recipes share: a folder of dglke_frugal/presets is a set of training runs, with a small graph to try.

python -m recipes.fb15k                              # TransE_l2 on the real graph
python -m recipes.fb15k --recipe complex --gpu 0     # another file of the folder; further flags are dglke_train's
python -m recipes.fb15k --small                      # the same on a small graph made here, in seconds
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Sequence

import yaml

from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.presets.catalogue import FOLDER

SMALL_RUN = "--hidden_dim 64 --batch_size 500 --neg_sample_size 100 --max_step 500 --log_interval 100".split()
SMALL_DIM = {"rescal": "20", "transr": "20", "rotate": "32"}  # of models that make more of it
THROUGH_THE_STORE = ["--flush", "p2f"]  # rows go through cache and engine, as they do on a GPU
SAMPLED = ["--neg_sample_size_eval", "200"]


@dataclass(frozen=True)
class Recipe:
    """A folder of YAML files, each the flags of one run.

    Attributes:
        package: which folder of dglke_frugal/presets has the files, as in "recipes.fb15k".
        small_graph: makes a small graph below a folder, in the layout of the real one.
        small_flags: what small runs change besides SMALL_RUN and SMALL_DIM.
        default: the run that is meant if none is named.
    """

    package: str
    small_graph: Callable[[Path], None]
    small_flags: Sequence[str] = ()
    default: str = "transe_l2"

    @property
    def folder(self) -> Path:
        return FOLDER / self.package.split(".")[-1]

    def names(self) -> List[str]:
        """Names of the runs, which are those of the files."""
        return sorted(path.stem for path in self.folder.glob("*.yaml"))

    def main(self, argv: Optional[Sequence[str]] = None) -> None:
        """Entry point. argv: the arguments without the program's name."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.package}", allow_abbrev=False,
                                         description=f"Train one of the presets of {self.package.split('.')[-1]}.",
                                         epilog="All other flags go to dglke_train, before those of the file.")
        parser.add_argument("--recipe", choices=self.names(), default=self.default, help="which run (%(default)s)")
        parser.add_argument("--small", action="store_true", help="on a small graph that is made here")
        parser.add_argument("--out", type=Path,
                            help="folder for the small graph and its run (default: a new temporary one, which stays)")
        own, flags = parser.parse_known_args(argv)
        file = self.folder / f"{own.recipe}.yaml"
        if not own.small:
            dglke_train(["--config", str(file), *flags])
            return
        out = own.out or Path(tempfile.mkdtemp(prefix=f"{own.recipe}-"))
        self.small_graph(out / "data")
        changed = [*SMALL_RUN, *self.small_flags]
        model = own.recipe.split("_")[0]
        if yaml.safe_load(file.read_text(encoding="utf-8"))["neg_sample_size"] == "all":
            changed += ["--neg_sample_size", "all"]
        if model in SMALL_DIM:
            changed += ["--hidden_dim", SMALL_DIM[model]]
        dglke_train(
            ["--config", str(file), "--data_path", str(out / "data"), "--save_path", str(out / "ckpts"), *changed,
             *flags])
