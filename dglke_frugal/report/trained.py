"""The trained tables and the graph of a run, where they still are, for its report."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from ..data import KnowledgeGraph, load_graph, ogb
from ..data.fingerprint import Fingerprint
from ..errors import InputError
from ..inference.run import Run
from .run_log import RunLog

Namer = Callable[[int], str]


@dataclass(frozen=True)
class Trained:
    """run: None if it saved no tables. graph: the one that it was trained on, None if it is not where it was.

    entity, relation: functions from ids to names, or to "entity 7" where there are none.
    """

    run: Optional[Run]
    graph: Optional[KnowledgeGraph]
    entity: Namer
    relation: Namer


def find_trained(log: RunLog) -> Trained:
    """The tables and the graph of a run; nothing is downloaded."""
    try:
        run = Run.load(log.folder, check_values=False)
    except InputError:
        return Trained(None, None, _namer("entity", lambda: None), _namer("relation", lambda: None))
    graph = _find_graph(log.flags, run)
    return Trained(run, graph, _namer("entity", lambda: run.entity_names),
                   _namer("relation", lambda: run.relation_names))


def _namer(what: str, names: Callable[[], Optional[Sequence[str]]]) -> Namer:
    """names: fetches them; that, or their first use, may raise InputError, for files of names may hold a count
    alone."""
    try:
        found = names()
        known = 0 if found is None else len(found)
    except InputError:
        known = 0
    return lambda number: found[number] if number < known else f"{what} {number}"


def _find_graph(flags: Dict[str, Any], run: Run) -> Optional[KnowledgeGraph]:
    """The graph that the run was trained on, if it is still what and where it was."""
    dataset, path = str(flags.get("dataset")), Path(run.config["data_path"])
    layout = flags.get("format", "built_in")
    is_there = (path / dataset).exists() or dataset in ogb.NAMES and ogb.find(dataset, path)
    if layout == "built_in" and not is_there:
        return None
    try:
        graph = load_graph(dataset, path, layout, flags.get("data_files"), flags.get("delimiter", "\t"),
                           bool(flags.get("has_edge_importance")))
    except InputError:
        return None
    changed = Fingerprint.of(graph).difference(Fingerprint.of_mapping(run.config.get("data")))
    return None if changed or graph.n_entities != len(run.model.entity) else graph
