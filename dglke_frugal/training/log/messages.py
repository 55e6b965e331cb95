"""Messages of a run at its start and at its end; the same numbers go into result.json."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np

from ...data import KnowledgeGraph
from ...data.name_maps import white_space_lines
from ...data.splitting import distinct, repeated
from ...evaluation.protocol import share_size
from ...options import TrainConfig
from ...presets.auto import PREFIX
from ...presets.catalogue import best_preset
from ...store.cache_policy import keeps_hot_rows

COUNTED = 1 << 23  # training triples up to which duplicates are looked for: a second or two, and 24 bytes each
SEARCHED = 1 << 24  # training triples up to which those of the other splits are looked for among them
_NAMES = {"train": "Train", "valid": "valid", "test": "test"}  # DGL-KE's spelling


@contextmanager
def reading_lines(eval_percent: float) -> Iterator[List[KnowledgeGraph]]:
    """DGL-KE's lines around reading a graph, which the block appends to what it is given: of valid and test the share
    that is ranked counts."""
    read: List[KnowledgeGraph] = []
    print("Reading train triples....", flush=True)
    yield read
    for graph in read:
        for split, triples in graph.splits.items():
            if split != "train":
                print(f"Reading {split} triples....")
            print(f"Finished. Read {len(triples)} {split} triples.")
        for split, triples in graph.splits.items():
            count = len(triples) if split == "train" else share_size(len(triples), eval_percent)
            print(f"|{_NAMES[split]}|: {count}", flush=True)


def graph_facts(graph: KnowledgeGraph) -> Dict[str, Any]:
    """The facts of a graph that matter: sizes; duplicates, training triples that an earlier one repeats (None: not
    counted); held_out, by split, what `held_out_facts` says of it."""
    return {"entities": graph.n_entities, "relations": graph.n_relations,
            "triples": {split: len(triples) for split, triples in graph.splits.items()},
            "duplicates": len(graph.train) - len(distinct(graph.train)) if len(graph.train) <= COUNTED else None,
            "held_out": held_out_facts(graph, [split for split in graph.splits if split != "train"])}


def held_out_facts(graph: KnowledgeGraph, splits: Sequence[str]) -> Dict[str, Dict[str, Optional[int]]]:
    """By split, how its triples relate to training: entities and relations that no training triple has, and triples
    with one (with_new_entities, with_new_relations); in_train, triples that stand there as well (None: not counted)."""
    trained = {"entities": np.zeros(graph.n_entities, bool), "relations": np.zeros(graph.n_relations, bool)}
    trained["entities"][graph.train.head] = trained["entities"][graph.train.tail] = True
    trained["relations"][graph.train.relation] = True
    facts: Dict[str, Dict[str, Optional[int]]] = {}
    for split in splits:
        triples = graph.splits[split]
        found = facts[split] = {}
        for what, columns in (("entities", (triples.head, triples.tail)), ("relations", (triples.relation,))):
            new = [~trained[what][column] for column in columns]
            found[what] = len(np.unique(np.concatenate([column[mask] for column, mask in zip(columns, new)])))
            found[f"with_new_{what}"] = int(np.logical_or.reduce(new).sum())
        found["in_train"] = None if len(graph.train) > SEARCHED else repeated(
            triples, graph.train, graph.n_entities, graph.n_relations)
    return facts


def held_out_lines(facts: Dict[str, Dict[str, Optional[int]]], sizes: Dict[str, int], warm: bool) -> List[str]:
    """Messages on the facts of `held_out_facts`. sizes: triples of each split. warm: whether rows that are
    not trained come from another run."""
    lines = []
    for split, found in facts.items():
        for what, one in () if warm else (("entities", "entity"), ("relations", "relation")):
            subject = (f"1 {one} of {split} is in no training triple, so its row stays" if found[what] == 1 else
                       f"{found[what]:,} {what} of {split} are in no training triple, so their rows stay")
            triples = found[f"with_new_{what}"]
            if triples:
                lines.append(f"{subject} at random: {triples:,} of its triples ({triples / sizes[split]:.1%})")
        if found["in_train"]:
            lines.append(f"{found['in_train']:,} of {sizes[split]:,} {split} triples stand in train as well "
                         f"({found['in_train'] / sizes[split]:.1%}), so that the {split} measures what is remembered, "
                         "too; leave them out there or in train")
    return lines


def start_lines(config: TrainConfig, graph: KnowledgeGraph, facts: Dict[str, Any], step_positives: int, epochs: float,
                folder: Path, warm: bool) -> List[str]:
    """The run's plan, and facts of the data that its user may not know. step_positives: of all ranks together.
    epochs: of all steps."""
    run, ranks = config.run, config.device.ranks
    train = facts["triples"]["train"]
    each = f"{step_positives:,} {config.positives}" + (f" in {ranks} processes" if ranks > 1 else "")
    lines = [f"{graph.name}: {facts['entities']:,} entities, {facts['relations']:,} relations, "
             f"{sum(facts['triples'].values()):,} triples",
             f"{config.model.model_name}, {run.max_step:,} steps of {each} "
             f"({epochs:.1f} epochs), seed {run.seed}, in {folder}"]
    if facts["duplicates"]:
        lines.append(f"{facts['duplicates']:,} of {train:,} training triples stand there twice; each occurrence is "
                     "trained on (dglke_frugal split keeps one)")
    if graph.ids_by_appearance and len(graph.entity_names) <= COUNTED:
        lines += white_space_lines(graph)
    ranked = {split: found for split, found in facts["held_out"].items() if getattr(config.evaluation, split)}
    lines += held_out_lines(ranked, facts["triples"], warm)
    if config.device.gpu[0] >= 0 and config.device.matmul == "tf32x3":
        lines.append("matrix products run on tensor cores, in three passes (--matmul tf32x3), as near to exact sums as "
                     "fp32; --matmul fp32 gives the tables that the CPU gives, to the bit")
    return [*lines, *_preset_hint(config), *_validation_hint(config, graph), *_policy_hint(config)]


def _preset_hint(config: TrainConfig) -> List[str]:
    """That there are presets, if the flags that a model's quality depends on are all DGL-KE's defaults."""
    default, model = TrainConfig(), config.model
    bare = (config.loss, config.batch, model.hidden_dim, model.gamma) == (
        default.loss, default.batch, default.model.hidden_dim, default.model.gamma)
    if not bare:
        return []
    preset = best_preset(config.graph.dataset, model.model_name) if config.graph.format == "built_in" else None
    expected = "" if preset is None or preset.mrr is None else f" (test MRR {preset.mrr:.3f})"
    named = "" if preset is None else f"--preset {preset.name} has flags for this one{expected}, and "
    return [f"these are DGL-KE's defaults, which fit few graphs; {named}--preset {PREFIX}/{model.model_name} chooses "
            "flags by the graph's size"]


def _policy_hint(config: TrainConfig) -> List[str]:
    """That a cache which evicts is slower on a GPU (docs/store.md)."""
    policy, has_all = config.store.cache_policy, config.store.cache_size is None and config.store.cache_ratio == 1
    if config.device.gpu[0] < 0 or not config.uses_engine or has_all or keeps_hot_rows(policy):
        return []
    return [f"--cache_policy {policy} puts rows out, for which a step takes longer than with static; leave it out to "
            "have static"]


def _validation_hint(config: TrainConfig, graph: KnowledgeGraph) -> List[str]:
    evaluation, steps = config.evaluation, config.run.max_step
    if graph.valid is not None and len(graph.valid) and not evaluation.valid:
        return [f"add --valid --eval_interval {max(1, steps // 5)} to see on the validation triples how it gets better"]
    if evaluation.valid and evaluation.eval_interval > steps:
        return [f"--eval_interval {evaluation.eval_interval} is more than --max_step {steps}, so --valid never ranks; "
                f"--eval_interval {max(1, steps // 5)} would five times"]
    return []


def chance_line(config: TrainConfig, what: str, mrr: float, of_chance: float) -> str:
    """That the model ranks hardly better than at random, and what to do. what: whose MRR it is."""
    preset = best_preset(config.graph.dataset, config.model.model_name) if config.graph.format == "built_in" else None
    if preset and (preset.lr, preset.model_name) == (config.loss.lr, config.model.model_name):
        preset = None  # that is where these flags come from
    remedy = f"try --preset {preset.name}, " if preset else "try "
    return (f"the {what} MRR of {short(mrr)} is near chance ({short(of_chance)}): the model has learned next to "
            f"nothing; {remedy}more steps, another --lr and --gamma, or dglke_frugal search")


def end_lines(config: TrainConfig, graph: KnowledgeGraph, folder: Path, steps: int) -> List[str]:
    """Where the run is, and commands that go on from it."""
    where, run = shlex.quote(str(folder)), config.run
    next_commands = [f"dglke_frugal report {where}"]
    if not run.no_save_emb:
        if graph.test is not None and len(graph.test) and not config.evaluation.test:
            next_commands.insert(0, f"dglke_eval --model_path {where}")
        # By ids, which no shell and no name can spoil.
        head, relation = int(graph.train.head[0]), int(graph.train.relation[0])
        if steps and steps == run.max_step:  # not stopped early, where more steps are of no use
            next_commands.append(f"dglke_train --resume {where} --max_step {2 * steps}")
        code = f"import dglke_frugal; print(dglke_frugal.load({str(folder)!r}).tails({head}, {relation}))"
        quoted = shlex.quote(code) if set(code) & set('"$`!\\') else f'"{code}"'
        next_commands.append(f"python -c {quoted}")
    message = f"The run is in {folder} (seed {run.seed}). Next, for instance:"
    return [message, *(f"    {line}" for line in next_commands)]


def short(value: Optional[float]) -> str:
    """A number with six significant digits, which always reads as one with a fraction."""
    text = f"{value:.6g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def time_left(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
