"""Searches behind recipes: `dglke_frugal search` for each, then the best flags trained in full and tested.

    python -m benchmarks.recipe_search --json FILE --data_path P --spaces FILE.yaml --seconds S [--gpu N] [--at_once N]

FILE.yaml gives for each run (FOLDER/NAME, as the preset would be called) a search space (docs/search.md), or the name
of one of the package's with the flags that are still to give: `{space: complex, flags: {dataset: FB15k-237}}`. Each
search has an equal share of the S seconds, `--at_once` trials at a time; what has been searched is kept next to FILE,
and a further call goes on with it. Runs train at the same time, so their seconds mean little. The JSON is written
after each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import yaml

from dglke_frugal.cli.search import main as dglke_search
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.options import MATMULS

from . import result_file

MOST_TRIALS = 10_000  # the time ends a search


def search(folder: Path, space: Dict[str, Any], flags: List[str]) -> Dict[str, Any]:
    """The trials of one search, and the flags of its full run. flags: of `dglke_frugal search`."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "best.yaml"
    own = ["--trials", str(MOST_TRIALS), "--out", str(folder / "search"), "--best", str(recipe)]
    start = time.perf_counter()
    dglke_search([*space_arguments(folder, space), *own, *flags])
    seconds = time.perf_counter() - start
    found = json.loads((folder / "search" / "results.json").read_text())
    return {"trials": len(found["trials"]), "best": found["best"], "seconds": seconds,
            "recipe": {**yaml.safe_load(recipe.read_text()), **found["full"]}}


def space_arguments(folder: Path, space: Dict[str, Any]) -> List[str]:
    """What `dglke_frugal search` is told of a space of FILE.yaml; one that is written there goes into `folder`."""
    if "space" in space:
        flags = [word for name, value in space.get("flags", {}).items() for word in (f"--{name}", str(value))]
        return [space["space"], *flags]
    file = folder / "space.yaml"
    file.write_text(yaml.safe_dump(space, sort_keys=False))
    return [str(file)]


def train_in_full(recipe: Dict[str, Any], flags: List[str]) -> Dict[str, Any]:
    """What a recipe gives. flags: of dglke_train."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        file = Path(folder) / "flags.yaml"
        file.write_text(yaml.safe_dump(recipe))
        with contextlib.redirect_stdout(nowhere):
            dglke_train(["--config", str(file), "--save_path", folder, "--no_save_emb", *flags])
        result = json.loads(next(Path(folder).glob("*/result.json")).read_text())
    return {key: result[key] for key in ("best_validation", "test", "steps", "seconds", "stopped_early")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, required=True, help="write the results here")
    parser.add_argument("--spaces", required=True, help="the spaces by run")
    parser.add_argument("--data_path", required=True, help="folder with the graphs in it")
    parser.add_argument("--seconds", type=float, required=True, help="of searching, for all together")
    parser.add_argument("--at_once", type=int, default=6, help="trials at the same time (%(default)s)")
    parser.add_argument("--runs", nargs="+", help="some of the spaces alone")
    parser.add_argument("--gpu", type=int, help="train on this GPU")
    parser.add_argument("--seed", type=int, default=0, help="of the searches (%(default)s)")
    parser.add_argument("--matmul", choices=MATMULS, help="precision of products on the GPU (dglke_train's own)")
    options = parser.parse_args()
    spaces = yaml.safe_load(Path(options.spaces).read_text())
    spaces = {name: spaces[name] for name in options.runs or spaces}
    common = ["--data_path", options.data_path]
    common += [] if options.gpu is None else ["--gpu", str(options.gpu), "--flush", "none"]
    common += [] if options.matmul is None else ["--matmul", options.matmul]
    share = ["--seconds", str(options.seconds / len(spaces)), "--parallel", str(options.at_once)]
    report = {"runs": {}, **result_file.read(options.json), "at_once": options.at_once, "seconds": options.seconds}
    for name, space in spaces.items():
        kept = Path(options.json).with_suffix("") / name
        found = report["runs"][name] = search(kept, space, [*common, *share, "--search_seed", str(options.seed)])
        found["full"] = train_in_full(found["recipe"], common)
        test = found["full"]["test"]["MRR"]
        print(f"{name:18s} {found['trials']} trials, validation MRR {found['best']['MRR']:.4f}, test {test:.4f}",
              flush=True)
        result_file.write(options.json, report)


if __name__ == "__main__":
    main()
