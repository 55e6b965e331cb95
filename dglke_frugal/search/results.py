"""The files of a search: a table, results.json, a page, and the best trial's flags as a recipe."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Dict, List, Mapping

from ..errors import InputError
from ..files import check_output, replace_file, write_json
from ..options import DeviceConfig, StoreConfig, TrainConfig, numbers_flags
from .page import make_page
from .space import Space, listed, plain
from .study import Study, Tried

RESULTS_FILE, PAGE_FILE = "results.json", "results.html"
SHOWN = 10
# Flags that say where and how a run computes and what it keeps: part of a recipe only where its numbers depend on them.
OF_THE_MACHINE = {field.name for part in (DeviceConfig, StoreConfig) for field in dataclasses.fields(part)} | {
    "data_path", "save_path", "no_save_emb", "log_interval", "trackers", "report", "checkpoint_interval"}


def check_results(folder: Path) -> None:
    """Raise InputError if the folder has files of these names that are not of a search."""
    check_output(folder / RESULTS_FILE, rb'\{\s*"space"')
    check_output(folder / PAGE_FILE, b"<!doctype html>.*dglke_frugal search</title>")


def write_results(folder: Path, space: Space, study: Study, with_plots: bool = False) -> None:
    """Write results.json and results.html into the search's folder. with_plots: whether to ask Optuna for its own,
    which takes long. Raises InputError."""
    tried = in_order(study)
    best = study.best
    found = {"space": space.name, "trials": [each.to_dict() for each in tried],
             "best": None if best is None else best.to_dict(),
             "full": {} if best is None else space.full_of(best.params)}
    write_json(folder / RESULTS_FILE, found)
    with replace_file(folder / PAGE_FILE, "w") as file:
        plots = study.plots() if with_plots else ()
        file.write(make_page(folder.name or str(folder), space, tried, study.metric, plots))


def in_order(study: Study) -> List[Tried]:
    """Trials by the metric, the best first; failed ones at the end."""
    return sorted(study.tried.values(), key=lambda each: (each.failed is not None, -(each.value or 0.0), each.number))


def table(study: Study) -> List[str]:
    """Lines with the best trials."""
    lines = [f"{'trial':>5}  {study.metric:>7}  {'step':>7}  {'seconds':>7}  {'state':<8}  flags"]
    for each in in_order(study)[:SHOWN]:
        value = "-" if each.value is None else f"{each.value:.4f}"
        step = "-" if each.step is None else f"{each.step:,}"
        lines.append(f"{each.number:>5}  {value:>7}  {step:>7}  {each.seconds:>7.0f}  {each.state:<8}  "
                     f"{', '.join(listed(each.params))}")
    return lines


def recipe_flags(config: TrainConfig) -> Dict[str, Any]:
    """The flags of a recipe: those of a trial's configuration that are no defaults, so that a run has its numbers, and
    a test of the tables of the best validation."""
    default, numbers = TrainConfig().to_flags(), numbers_flags(config)
    flags = {name: value for name, value in config.to_flags().items()
             if value != default[name] and (name not in OF_THE_MACHINE or name in numbers)}
    always = {"dataset": config.graph.dataset, "model_name": config.model.model_name, "max_step": config.run.max_step}
    # The best tables are kept by early stopping, which so much patience never does.
    patience = config.run.early_stop_patience or config.run.max_step // config.evaluation.eval_interval
    return plain({**always, **flags, "early_stop_patience": patience, "test": True})


def flags_in_full(recipe: Mapping[str, Any], full: TrainConfig) -> Dict[str, Any]:
    """Flags of a full run of this configuration, which override the recipe of its trial."""
    defaults, wanted = plain(TrainConfig().to_flags()), recipe_flags(full)
    return {name: wanted.get(name, defaults[name]) for name in {**recipe, **wanted}
            if wanted.get(name, defaults[name]) != recipe.get(name, defaults[name])}


def write_recipe(path: Path, flags: Mapping[str, Any], study: Study, space: Space) -> None:
    """Write a recipe for --config, with a comment that says where it comes from. Raises InputError."""
    import yaml

    best = study.best
    if best is None:
        raise InputError("no trial had a validation, so there is no best one; look into the folder of the search")
    with replace_file(path, "w") as file:
        file.write(f"# {flags['model_name']} on {flags['dataset']}, found by dglke_frugal search in "
                   f"{Path(space.name).name}: trial {best.number}, the best of {len(study.tried)}\n# by the "
                   f"{best.metric} of the validation triples, {best.value:.4f} at step {best.step}.\n")
        yaml.safe_dump(dict(flags), file, sort_keys=False)
